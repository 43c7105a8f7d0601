// The `name = value;` lines of TSDL: the forms of values, and the blocks that consist of such lines only (integer,
// floating_point, string).
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"
#include "ctf/model/field_class.hpp"
#include "ctf/tsdl/tsdl_tokens.hpp"

namespace leat::ctf {

// A number and its sign. If it is negative, `bits` are those of an int64.
struct SignedNumber {
    std::uint64_t bits = 0;
    bool is_negative = false;
};

Result<SignedNumber> parse_signed_number(TsdlTokens& tokens);

// "le", "be", "network", or "native", which is `native`.
Result<ByteOrder> parse_byte_order(TsdlTokens& tokens, ByteOrder native);

// The result is a power of two.
Result<unsigned> parse_alignment(TsdlTokens& tokens);

// Takes the value of a string, or the text of a word.
Result<std::string> parse_text(TsdlTokens& tokens);

// Skips everything up to and including the semicolon. Unknown attributes may belong to a later version.
Result<void> skip_attribute(TsdlTokens& tokens);

// Parses the `{ ... }` after the keyword. Absent attributes get their defaults.
Result<IntegerClass> parse_integer_block(TsdlTokens& tokens, ByteOrder native);
Result<FloatClass> parse_float_block(TsdlTokens& tokens, ByteOrder native);
Result<StringClass> parse_string_block(TsdlTokens& tokens);

}  // namespace leat::ctf
