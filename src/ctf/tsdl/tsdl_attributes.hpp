// `name = value;` lines of TSDL: the value forms, and the blocks that hold nothing else: integer, floating_point,
// string.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"
#include "ctf/model/field_class.hpp"
#include "ctf/tsdl/tsdl_tokens.hpp"

namespace leat::ctf {

// A number with the sign that stood before it. `bits` are those of an int64 if it is negative.
struct SignedNumber {
    std::uint64_t bits = 0;
    bool is_negative = false;
};

Result<SignedNumber> parse_signed_number(TsdlTokens& tokens);

// "le", "be", "network", or "native", which is `native`.
Result<ByteOrder> parse_byte_order(TsdlTokens& tokens, ByteOrder native);

// A power of two.
Result<unsigned> parse_alignment(TsdlTokens& tokens);

// The value of a string or the text of a word.
Result<std::string> parse_text(TsdlTokens& tokens);

// Everything up to the semicolon, and the semicolon: attributes unknown to us may be of a later version.
Result<void> skip_attribute(TsdlTokens& tokens);

// `{ ... }` behind the keyword; the values that it leaves out have their defaults.
Result<IntegerClass> parse_integer_block(TsdlTokens& tokens, ByteOrder native);
Result<FloatClass> parse_float_block(TsdlTokens& tokens, ByteOrder native);
Result<StringClass> parse_string_block(TsdlTokens& tokens);

}  // namespace leat::ctf
