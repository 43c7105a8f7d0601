#include "ctf/tsdl/tsdl_tokens.hpp"

#include <utility>

namespace leat::ctf {

Result<TsdlTokens> TsdlTokens::open(std::string_view text, unsigned line) {
    TsdlTokens tokens(text, line);
    tokens.token_ = LEAT_TRY(tokens.lexer_.next());
    return tokens;
}

Result<TsdlToken> TsdlTokens::take() {
    const TsdlToken following = LEAT_TRY(lexer_.next());
    ++count_;
    return std::exchange(token_, following);
}

Result<bool> TsdlTokens::accept(std::string_view mark) {
    if (!at(mark)) return false;
    LEAT_TRY(take());
    return true;
}

Result<void> TsdlTokens::expect(std::string_view mark) {
    if (!at(mark)) return expected(fmt::format("'{}'", mark));
    LEAT_TRY(take());
    return {};
}

Result<TsdlToken> TsdlTokens::expect_word(std::string_view what) {
    if (!at(TsdlToken::Kind::kWord)) return expected(what);
    return take();
}

Result<std::uint64_t> TsdlTokens::expect_number(std::string_view what) {
    if (!at(TsdlToken::Kind::kNumber)) return expected(what);
    return LEAT_TRY(take()).number;
}

tl::unexpected<Error> TsdlTokens::expected(std::string_view what) const {
    return corrupt("line {}: {} expected, found {}", token_.line, what, describe(token_));
}

}  // namespace leat::ctf
