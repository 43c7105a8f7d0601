#pragma once

#include <algorithm>
#include <string>

namespace leat {

inline bool is_printable(char c) { return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f; }

// Makes a peer's text fit for a terminal: control characters become '?'. UTF-8 stays.
inline std::string printable(std::string text) {
    std::replace_if(
        text.begin(), text.end(), [](char c) { return !is_printable(c); }, '?');
    return text;
}

}  // namespace leat
