#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"
#include "ctf/tsdl_lexer.hpp"

namespace leat::ctf {

// The tokens of a metadata text with one token of lookahead: what every rule of the TSDL grammar is made of.
// Errors name the line, what was expected and what stands there instead.
class TsdlTokens {
  public:
    // The text must outlive the stream.
    static Result<TsdlTokens> open(std::string_view text);

    [[nodiscard]] const TsdlToken& peek() const { return token_; }
    [[nodiscard]] bool at(std::string_view mark) const { return token_.is(mark); }
    [[nodiscard]] bool at(TsdlToken::Kind kind) const { return token_.kind == kind; }

    Result<TsdlToken> take();
    // Takes the mark if it is there, and says whether it was.
    Result<bool> accept(std::string_view mark);
    Result<void> expect(std::string_view mark);
    Result<TsdlToken> expect_word(std::string_view what);
    Result<std::uint64_t> expect_number(std::string_view what);

    // The error that something else was expected here.
    [[nodiscard]] tl::unexpected<Error> expected(std::string_view what) const;

  private:
    explicit TsdlTokens(std::string_view text) : lexer_(text) {}

    TsdlLexer lexer_;
    TsdlToken token_;
};

}  // namespace leat::ctf
