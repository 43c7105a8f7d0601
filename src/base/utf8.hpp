#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace leat {

// Bytes of the UTF-8 character that this text, which is not empty, begins with; 0: it begins with none.
inline std::size_t utf8_size(std::string_view text) {
    const auto at = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    if (at(0) < 0x80) return 1;
    const std::size_t size = at(0) >= 0xF0 ? 4 : at(0) >= 0xE0 ? 3 : 2;
    if (at(0) < 0xC2 || at(0) > 0xF4 || text.size() < size) return 0;
    for (std::size_t i = 1; i < size; ++i)
        if ((at(i) & 0xC0) != 0x80) return 0;
    const bool is_overlong = (at(0) == 0xE0 && at(1) < 0xA0) || (at(0) == 0xF0 && at(1) < 0x90);
    const bool is_none = (at(0) == 0xED && at(1) >= 0xA0) || (at(0) == 0xF4 && at(1) >= 0x90);
    return is_overlong || is_none ? 0 : size;
}

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

// The text with U+FFFD in the place of each byte that is no UTF-8.
inline std::string to_utf8(std::string_view text) {
    std::string clean;
    clean.reserve(text.size());
    while (!text.empty()) {
        const std::size_t size = utf8_size(text);
        clean += size == 0 ? kReplacementCharacter : text.substr(0, size);
        text.remove_prefix(size == 0 ? 1 : size);
    }
    return clean;
}

// Text in UTF-16 or UTF-32, whose units have 2 or 4 bytes, as UTF-8. What is no character becomes U+FFFD, and a unit
// that is cut short at the end is left out.
std::string wide_to_utf8(std::string_view text, unsigned unit, bool is_big_endian);

}  // namespace leat
