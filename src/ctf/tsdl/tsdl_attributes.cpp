#include "ctf/tsdl/tsdl_attributes.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <utility>

namespace leat::ctf {
namespace {

template <class T>
using NamedValues = std::initializer_list<std::pair<std::string_view, T>>;

template <class T>
Result<T> take_named_value(TsdlTokens& tokens, std::string_view what, NamedValues<T> values) {
    const TsdlToken& token = tokens.peek();
    const auto value = std::ranges::find(values, token.text, &std::pair<std::string_view, T>::first);
    if (value == values.end()) return tokens.expected(what);
    LEAT_TRY(tokens.take());
    return value->second;
}

Result<DisplayBase> parse_base(TsdlTokens& tokens) {
    using enum DisplayBase;
    return take_named_value<DisplayBase>(tokens, "a base (2, 8, 10 or 16)",
                                         {{"10", kDecimal},
                                          {"decimal", kDecimal},
                                          {"dec", kDecimal},
                                          {"d", kDecimal},
                                          {"i", kDecimal},
                                          {"u", kDecimal},
                                          {"16", kHexadecimal},
                                          {"hexadecimal", kHexadecimal},
                                          {"hex", kHexadecimal},
                                          {"x", kHexadecimal},
                                          {"X", kHexadecimal},
                                          {"p", kHexadecimal},
                                          {"8", kOctal},
                                          {"octal", kOctal},
                                          {"oct", kOctal},
                                          {"o", kOctal},
                                          {"2", kBinary},
                                          {"binary", kBinary},
                                          {"b", kBinary}});
}

Result<Encoding> parse_encoding(TsdlTokens& tokens) {
    using enum Encoding;
    return take_named_value<Encoding>(tokens, "an encoding (none, UTF8 or ASCII)",
                                      {{"none", kNone},
                                       {"UTF8", kUtf8},
                                       {"utf8", kUtf8},
                                       {"UTF-8", kUtf8},
                                       {"utf-8", kUtf8},
                                       {"ASCII", kAscii},
                                       {"ascii", kAscii}});
}

Result<bool> parse_boolean(TsdlTokens& tokens) {
    return take_named_value<bool>(
        tokens, "true or false",
        {{"true", true}, {"TRUE", true}, {"1", true}, {"false", false}, {"FALSE", false}, {"0", false}});
}

// `clock.NAME.value`
Result<std::string> parse_clock_mapping(TsdlTokens& tokens) {
    LEAT_TRY(tokens.expect("clock"));
    LEAT_TRY(tokens.expect("."));
    const TsdlToken name = LEAT_TRY(tokens.expect_word("the name of a clock"));
    LEAT_TRY(tokens.expect("."));
    LEAT_TRY(tokens.expect("value"));
    return std::string(name.text);
}

// Calls parse(name) after each `name =` of a `{ ... }` block. parse() reads the value.
template <class ParseValue>
Result<void> parse_block(TsdlTokens& tokens, ParseValue parse) {
    LEAT_TRY(tokens.expect("{"));
    while (!tokens.at("}")) {
        const TsdlToken name = LEAT_TRY(tokens.expect_word("the name of an attribute"));
        LEAT_TRY(tokens.expect("="));
        const bool is_known = LEAT_TRY(parse(name.text));
        if (is_known)
            LEAT_TRY(tokens.expect(";"));
        else
            LEAT_TRY(skip_attribute(tokens));
    }
    return tokens.expect("}");
}

// The attributes as written. Absent ones are derived from the others later.
struct IntegerAttributes {
    IntegerClass integer;
    std::optional<unsigned> size;
    std::optional<unsigned> alignment;

    Result<bool> parse(TsdlTokens& tokens, std::string_view name, ByteOrder native);
};

Result<bool> IntegerAttributes::parse(TsdlTokens& tokens, std::string_view name, ByteOrder native) {
    if (name == "size") {
        if (tokens.peek().number < 1 || tokens.peek().number > 64) return tokens.expected("a size of 1 to 64");
        size = static_cast<unsigned>(LEAT_TRY(tokens.expect_number("a size of 1 to 64")));
    } else if (name == "align") {
        alignment = LEAT_TRY(parse_alignment(tokens));
    } else if (name == "signed") {
        integer.is_signed = LEAT_TRY(parse_boolean(tokens));
    } else if (name == "byte_order") {
        integer.byte_order = LEAT_TRY(parse_byte_order(tokens, native));
    } else if (name == "base") {
        integer.base = LEAT_TRY(parse_base(tokens));
    } else if (name == "encoding") {
        integer.encoding = LEAT_TRY(parse_encoding(tokens));
    } else if (name == "map") {
        integer.clock = LEAT_TRY(parse_clock_mapping(tokens));
    } else {
        return false;
    }
    return true;
}

struct FloatAttributes {
    FloatClass real;
    std::uint64_t exponent_bits = 0;
    std::uint64_t mantissa_bits = 0;  // includes the sign

    Result<bool> parse(TsdlTokens& tokens, std::string_view name, ByteOrder native);
};

Result<bool> FloatAttributes::parse(TsdlTokens& tokens, std::string_view name, ByteOrder native) {
    if (name == "exp_dig") {
        exponent_bits = LEAT_TRY(tokens.expect_number("a number of bits"));
    } else if (name == "mant_dig") {
        mantissa_bits = LEAT_TRY(tokens.expect_number("a number of bits"));
    } else if (name == "align") {
        real.alignment = LEAT_TRY(parse_alignment(tokens));
    } else if (name == "byte_order") {
        real.byte_order = LEAT_TRY(parse_byte_order(tokens, native));
    } else {
        return false;
    }
    return true;
}

}  // namespace

Result<SignedNumber> parse_signed_number(TsdlTokens& tokens) {
    const bool is_negative = LEAT_TRY(tokens.accept("-"));
    if (!is_negative) LEAT_TRY(tokens.accept("+"));
    const std::uint64_t number = LEAT_TRY(tokens.expect_number("a number"));
    if (is_negative && number > std::uint64_t{1} << 63U) return tokens.expected("a number of 64 bits");
    return SignedNumber{is_negative ? -number : number, is_negative};
}

Result<ByteOrder> parse_byte_order(TsdlTokens& tokens, ByteOrder native) {
    using enum ByteOrder;
    return take_named_value<ByteOrder>(
        tokens, "a byte order (le, be, network or native)",
        {{"le", kLittleEndian}, {"be", kBigEndian}, {"network", kBigEndian}, {"native", native}});
}

Result<unsigned> parse_alignment(TsdlTokens& tokens) {
    constexpr std::string_view kWhat = "an alignment (a power of two)";
    const std::uint64_t alignment = tokens.peek().number;
    if (!std::has_single_bit(alignment) || alignment > kMaxAlignment) return tokens.expected(kWhat);
    LEAT_TRY(tokens.expect_number(kWhat));
    return static_cast<unsigned>(alignment);
}

Result<std::string> parse_text(TsdlTokens& tokens) {
    if (!tokens.at(TsdlToken::Kind::kString)) return std::string(LEAT_TRY(tokens.expect_word("a string")).text);
    return unescape(LEAT_TRY(tokens.take()));
}

Result<void> skip_attribute(TsdlTokens& tokens) {
    while (!tokens.at(";") && !tokens.at("}") && !tokens.at(TsdlToken::Kind::kEnd)) LEAT_TRY(tokens.take());
    return tokens.expect(";");
}

Result<IntegerClass> parse_integer_block(TsdlTokens& tokens, ByteOrder native) {
    IntegerAttributes attributes;
    attributes.integer.byte_order = native;
    LEAT_TRY(parse_block(tokens, [&](std::string_view name) { return attributes.parse(tokens, name, native); }));
    if (!attributes.size) return tokens.expected("the attribute 'size' of the integer before this");
    IntegerClass& integer = attributes.integer;
    integer.size = *attributes.size;
    // The default of [CTF-1.8], section 4.1: whole bytes are aligned to bytes, other sizes follow bit by bit.
    integer.alignment = attributes.alignment.value_or(integer.size % 8 == 0 ? 8 : 1);
    return std::move(integer);
}

Result<FloatClass> parse_float_block(TsdlTokens& tokens, ByteOrder native) {
    FloatAttributes attributes;
    attributes.real.byte_order = native;
    attributes.real.alignment = 8;  // the default for whole bytes, as for integers
    LEAT_TRY(parse_block(tokens, [&](std::string_view name) { return attributes.parse(tokens, name, native); }));
    const bool is_float = attributes.exponent_bits == 8 && attributes.mantissa_bits == 24;
    const bool is_double = attributes.exponent_bits == 11 && attributes.mantissa_bits == 53;
    if (!is_float && !is_double) return tokens.expected("a floating_point of 8 + 24 or 11 + 53 bits before this");
    attributes.real.size = is_float ? 32 : 64;
    return attributes.real;
}

Result<StringClass> parse_string_block(TsdlTokens& tokens) {
    StringClass string;
    LEAT_TRY(parse_block(tokens, [&](std::string_view name) -> Result<bool> {
        if (name != "encoding") return false;
        string.encoding = LEAT_TRY(parse_encoding(tokens));
        return true;
    }));
    return string;
}

}  // namespace leat::ctf
