#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace leat {

inline bool is_printable(char c) { return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f; }

// Bytes of the control character, of ASCII or of UTF-8 (U+0080 to U+009F), that this text, which is not empty, begins
// with; 0: it begins with none.
inline std::size_t control_size(std::string_view text) {
    if (!is_printable(text[0])) return 1;
    const auto second = text.size() < 2 ? 0U : static_cast<unsigned char>(text[1]);
    return text[0] == '\xC2' && second >= 0x80 && second < 0xA0 ? 2 : 0;
}

// Makes a peer's text fit for a terminal: each byte of a control character becomes '?'. Other UTF-8 stays.
inline std::string printable(std::string text) {
    for (std::size_t at = 0; at < text.size(); ++at) {
        const std::size_t size = control_size(std::string_view(text).substr(at));
        text.replace(at, size, size, '?');
    }
    return text;
}

}  // namespace leat
