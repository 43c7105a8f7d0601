#include "ctf/tsdl/tsdl_lexer.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "ctf/tsdl/tsdl_characters.hpp"

namespace leat::ctf {
namespace {

// The longest come first, because "..." is not three dots.
constexpr std::array<std::string_view, 19> kPunctuation{"...", "->", ":=", "{", "}", "[", "]", "(", ")", "<",
                                                        ">",   ";",  ":",  "=", ",", ".", "*", "-", "+"};

constexpr std::array<std::string_view, 28> kKeywords{
    "align",   "callsite", "char",           "clock",  "const",  "double",   "enum",
    "env",     "event",    "floating_point", "float",  "int",    "integer",  "long",
    "short",   "signed",   "stream",         "string", "struct", "trace",    "typealias",
    "typedef", "unsigned", "variant",        "void",   "_Bool",  "_Complex", "_Imaginary"};

std::size_t word_size(std::string_view text) {
    return static_cast<std::size_t>(std::ranges::find_if_not(text, is_word) - text.begin());
}

// Takes the prefix off "0x1f", "017" or "0b11", and returns the base; 10 for "42".
int take_base(std::string_view& digits) {
    if (digits.size() < 2 || digits[0] != '0') return 10;
    if (digits[1] == 'x' || digits[1] == 'X') return digits.remove_prefix(2), 16;
    if (digits[1] == 'b' || digits[1] == 'B') return digits.remove_prefix(2), 2;
    return digits.remove_prefix(1), 8;
}

void drop_suffix(std::string_view& digits) {
    while (!digits.empty() && std::string_view("uUlL").find(digits.back()) != std::string_view::npos)
        digits.remove_suffix(1);
}

// The character that "\n" and the like stand for; NUL if there is none.
char simple_escape(char letter) {
    switch (letter) {
        case 'a':
            return '\a';
        case 'b':
            return '\b';
        case 'e':
            return '\x1b';
        case 'f':
            return '\f';
        case 'n':
            return '\n';
        case 'r':
            return '\r';
        case 't':
            return '\t';
        case 'v':
            return '\v';
        case '\\':
        case '\'':
        case '"':
        case '?':
            return letter;
        default:
            return '\0';
    }
}

// The character that an escape stands for, and how much of the text the escape took: 0 if it is not valid.
struct Escape {
    char character = '\0';
    std::size_t size = 0;
};

Escape numeric_escape(std::string_view text) {
    const bool is_hexadecimal = text.starts_with('x');
    const std::string_view digits = is_hexadecimal ? text.substr(1, 2) : text.substr(0, 3);
    unsigned value = 0;
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), value, is_hexadecimal ? 16 : 8);
    if (parsed.ec != std::errc{} || value > 0xFF) return {};
    return {static_cast<char>(value), static_cast<std::size_t>(parsed.ptr - text.data())};
}

Escape parse_escape(std::string_view text) {
    if (text.empty()) return {};
    if (const char character = simple_escape(text[0]); character != '\0') return {character, 1};
    return numeric_escape(text);
}

}  // namespace

bool is_keyword(std::string_view word) { return std::ranges::find(kKeywords, word) != kKeywords.end(); }

std::string describe(const TsdlToken& token) {
    if (token.kind == TsdlToken::Kind::kEnd) return "the end";
    const std::string_view quote = token.kind == TsdlToken::Kind::kString ? "\"" : "'";
    constexpr std::size_t kLongestQuoted = 40;
    return fmt::format("{}{}{}", quote, token.text.substr(0, kLongestQuoted), quote);
}

Result<TsdlToken> TsdlLexer::next() {
    LEAT_TRY(skip_blanks());
    if (offset_ == text_.size()) return take(TsdlToken::Kind::kEnd, 0);
    const char first = text_[offset_];
    if (is_word_start(first)) return word();
    if (is_digit(first)) return number();
    if (first == '"') return string();
    return punctuation();
}

Result<void> TsdlLexer::skip_blanks() {
    while (offset_ < text_.size()) {
        if (rest().starts_with("/*") || rest().starts_with("//")) {
            LEAT_TRY(skip_comment());
            continue;
        }
        if (!is_blank(text_[offset_])) break;
        if (text_[offset_] == '\n') ++line_;
        ++offset_;
    }
    return {};
}

Result<void> TsdlLexer::skip_comment() {
    const bool is_block = text_[offset_ + 1] == '*';
    const std::size_t end = text_.find(is_block ? "*/" : "\n", offset_ + 2);
    if (end == std::string_view::npos && is_block) return corrupt("line {}: comment without an end", line_);
    const std::size_t next = end == std::string_view::npos ? text_.size() : end + (is_block ? 2 : 0);
    line_ += static_cast<unsigned>(std::ranges::count(text_.substr(offset_, next - offset_), '\n'));
    offset_ = next;
    return {};
}

TsdlToken TsdlLexer::take(TsdlToken::Kind kind, std::size_t size) {
    const TsdlToken token{kind, text_.substr(offset_, size), line_};
    offset_ += size;
    return token;
}

Result<TsdlToken> TsdlLexer::word() { return take(TsdlToken::Kind::kWord, word_size(rest())); }

Result<TsdlToken> TsdlLexer::number() {
    TsdlToken token = take(TsdlToken::Kind::kNumber, word_size(rest()));
    std::string_view digits = token.text;
    drop_suffix(digits);
    const int base = take_base(digits);
    const char* const end = digits.data() + digits.size();
    const auto parsed = std::from_chars(digits.data(), end, token.number, base);
    if (parsed.ec != std::errc{} || parsed.ptr != end)
        return corrupt("line {}: {} is not a number of 64 bits", token.line, describe(token));
    return token;
}

Result<TsdlToken> TsdlLexer::string() {
    const std::size_t start = offset_ + 1;
    std::size_t end = start;
    while (end < text_.size() && text_[end] != '"') end += text_[end] == '\\' ? 2 : 1;
    if (end >= text_.size()) return corrupt("line {}: string without an end", line_);
    const std::string_view text = text_.substr(start, end - start);
    if (text.find('\0') != std::string_view::npos) return corrupt("line {}: NUL in a string", line_);
    const TsdlToken token{TsdlToken::Kind::kString, text, line_};
    line_ += static_cast<unsigned>(std::ranges::count(text, '\n'));
    offset_ = end + 1;
    return token;
}

Result<TsdlToken> TsdlLexer::punctuation() {
    for (const std::string_view mark : kPunctuation)
        if (rest().starts_with(mark)) return take(TsdlToken::Kind::kPunctuation, mark.size());
    return corrupt("line {}: byte 0x{:02x} has no place here", line_, static_cast<unsigned char>(text_[offset_]));
}

Result<std::string> unescape(const TsdlToken& string) {
    std::string plain;
    std::string_view rest = string.text;
    while (!rest.empty()) {
        if (rest[0] != '\\') {
            plain += rest[0];
            rest.remove_prefix(1);
            continue;
        }
        const Escape escape = parse_escape(rest.substr(1));
        if (escape.size == 0) return corrupt("line {}: unknown escape in string {}", string.line, describe(string));
        plain += escape.character;
        rest.remove_prefix(1 + escape.size);
    }
    // An escaped NUL ends the text, as in babeltrace2.
    if (const auto nul = plain.find('\0'); nul != std::string::npos) plain.resize(nul);
    return plain;
}

}  // namespace leat::ctf
