#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "ctf/tsdl/tsdl_lexer.hpp"

namespace leat::ctf {

// The tokens of a metadata text, with one token of lookahead: every rule of the TSDL grammar reads from it.
// Errors name the line, what was expected and what stands there instead.
class TsdlTokens {
  public:
    // Has no tokens.
    TsdlTokens() : lexer_({}, 1) {}
    // The text must outlive this object. `line` is the number of its first line.
    static Result<TsdlTokens> open(std::string_view text, unsigned line = 1);

    [[nodiscard]] const TsdlToken& peek() const { return token_; }
    [[nodiscard]] bool at(std::string_view mark) const { return token_.is(mark); }
    [[nodiscard]] bool at(TsdlToken::Kind kind) const { return token_.kind == kind; }

    Result<TsdlToken> take();
    // Takes the mark if it comes next, and says whether it did.
    Result<bool> accept(std::string_view mark);
    Result<void> expect(std::string_view mark);
    Result<TsdlToken> expect_word(std::string_view what);
    Result<std::uint64_t> expect_number(std::string_view what);

    // The number of tokens taken so far.
    [[nodiscard]] std::uint64_t count() const { return count_; }

    // An error that says what was expected here.
    [[nodiscard]] tl::unexpected<Error> expected(std::string_view what) const;

  private:
    TsdlTokens(std::string_view text, unsigned line) : lexer_(text, line) {}

    TsdlLexer lexer_;
    TsdlToken token_;
    std::uint64_t count_ = 0;
};

}  // namespace leat::ctf
