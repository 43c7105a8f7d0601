#include "base/utf8.hpp"

#include <cstdint>

namespace leat {
namespace {

void append_utf8(std::string& text, std::uint32_t character) {
    const auto continued = [&](unsigned shift) { text += static_cast<char>(0x80U | (character >> shift & 0x3FU)); };
    if (character < 0x80) {
        text += static_cast<char>(character);
    } else if (character < 0x800) {
        text += static_cast<char>(0xC0U | character >> 6U);
        continued(0);
    } else if (character < 0x10000) {
        text += static_cast<char>(0xE0U | character >> 12U);
        continued(6);
        continued(0);
    } else {
        text += static_cast<char>(0xF0U | character >> 18U);
        continued(12);
        continued(6);
        continued(0);
    }
}

}  // namespace

std::string wide_to_utf8(std::string_view text, unsigned unit, bool is_big_endian) {
    constexpr std::uint32_t kNone = 0xFFFD;
    const auto take = [&] {
        std::uint32_t value = 0;
        for (unsigned i = 0; i < unit; ++i) {
            const auto byte = static_cast<unsigned char>(text[is_big_endian ? i : unit - 1 - i]);
            value = value << 8U | byte;
        }
        text.remove_prefix(unit);
        return value;
    };
    std::string result;
    while (text.size() >= unit) {
        std::uint32_t character = take();
        const bool is_high = character >= 0xD800 && character < 0xDC00;
        if (unit == 2 && is_high && text.size() >= unit) {
            const std::string_view after_high = text;
            const std::uint32_t low = take();
            if (low >= 0xDC00 && low < 0xE000)
                character = 0x10000 + ((character - 0xD800) << 10U) + (low - 0xDC00);
            else
                text = after_high;
        }
        const bool is_none = character > 0x10FFFF || (character >= 0xD800 && character < 0xE000);
        append_utf8(result, is_none ? kNone : character);
    }
    return result;
}

}  // namespace leat
