#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace leat::ctf {

struct TsdlToken {
    enum class Kind { kWord, kNumber, kString, kPunctuation, kEnd };

    Kind kind = Kind::kEnd;
    std::string_view text{};  // as it stands in the metadata; for a string, the text between the quotes
    unsigned line = 1;
    std::uint64_t number = 0;  // of kNumber

    [[nodiscard]] bool is(std::string_view punctuation_or_word) const {
        return (kind == Kind::kPunctuation || kind == Kind::kWord) && text == punctuation_or_word;
    }
};

// Other readers would report a syntax error for a field of such a name, so TSDL writers put an underscore first.
[[nodiscard]] bool is_keyword(std::string_view word);

// Describes the token in words, for messages.
std::string describe(const TsdlToken& token);

// Cuts TSDL text (the metadata language of CTF 1.8) into tokens. It drops comments and white space.
class TsdlLexer {
  public:
    // The text must outlive the lexer and its tokens. `line` is the number of its first line.
    explicit TsdlLexer(std::string_view text, unsigned line) : text_(text), line_(line) {}

    // At the end of the text, every call returns kEnd.
    Result<TsdlToken> next();

  private:
    Result<void> skip_blanks();
    Result<void> skip_comment();
    Result<TsdlToken> word();
    Result<TsdlToken> number();
    Result<TsdlToken> string();
    Result<TsdlToken> punctuation();

    [[nodiscard]] std::string_view rest() const { return text_.substr(offset_); }
    TsdlToken take(TsdlToken::Kind kind, std::size_t size);

    std::string_view text_;
    std::size_t offset_ = 0;
    unsigned line_;
};

// Replaces the escapes of C in the text between quotes: \n, \", \\, \x41, \101...
Result<std::string> unescape(const TsdlToken& string);

}  // namespace leat::ctf
