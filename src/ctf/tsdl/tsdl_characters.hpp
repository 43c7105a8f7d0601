#pragma once

namespace leat::ctf {

// What TSDL's words, numbers and blanks are made of ([CTF-1.8], appendix C.1). Independent of the locale, unlike what
// <cctype> says.
constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_word_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
constexpr bool is_word(char c) { return is_word_start(c) || is_digit(c); }
constexpr bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

}  // namespace leat::ctf
