#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "base/printable_text.hpp"

namespace leat {

// One word of a command that people are told to type: quoted, if a shell would not take it as it is.
inline std::string shell_word(const std::string& text) {
    constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
    const auto is_plain = [&](char c) { return kPlain.find(c) != std::string_view::npos || (c & 0x80) != 0; };
    if (text.starts_with('-')) return shell_word("./" + text);  // a path, no option
    if (!text.empty() && std::ranges::all_of(text, is_plain)) return text;
    std::string word = "'";
    for (const char c : printable(text)) word += c == '\'' ? "'\\''" : std::string(1, c);
    return word + "'";
}

}  // namespace leat
