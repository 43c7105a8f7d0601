#include "viewer/sink/field_json.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace leat::viewer {
namespace {

using ctf::FieldClass;
using ctf::FieldValue;

std::string json_text(std::string_view text) {
    TextBuffer buffer(-1);
    append_json_text(buffer, text);
    return std::string(buffer.text());
}

std::string json_of(const std::vector<FieldValue>& values) {
    TextBuffer buffer(-1);
    append_json(buffer, values);
    return std::string(buffer.text());
}

FieldValue number(const FieldClass& field_class, std::uint64_t bits, std::string_view name = {}) {
    FieldValue value;
    value.field_class = &field_class;
    value.name = name;
    value.number = bits;
    return value;
}

std::string json_of_real(double real, unsigned size = 64) {
    const FieldClass field_class = ctf::FloatClass{.size = size};
    FieldValue value = number(field_class, 0);
    value.real = real;
    return json_of({value});
}

TEST(FieldJson, TextHasTheEscapesOfJson) {
    EXPECT_EQ(json_text(""), "\"\"");
    EXPECT_EQ(json_text("a\"b\\c/'?"), R"("a\"b\\c/'?")");
    EXPECT_EQ(json_text("\b\f\n\r\t\x01\x1f\x7f"), "\"\\b\\f\\n\\r\\t\\u0001\\u001f\x7f\"");
}

// JavaScript shows another address than a kernel's, and says nothing.
TEST(FieldJson, IntegersThatNoDoubleHoldsAreTextForJavaScript) {
    const auto json_for_doubles = [](std::uint64_t bits, bool is_signed) {
        const FieldClass field_class = ctf::IntegerClass{.size = 64, .is_signed = is_signed};
        TextBuffer buffer(-1);
        append_json(buffer, std::vector{number(field_class, bits)}, JsonIntegers::kForDoubles);
        return std::string(buffer.text());
    };
    constexpr std::int64_t kLargest = (std::int64_t{1} << 53) - 1;
    EXPECT_EQ(json_for_doubles(kLargest, false), "9007199254740991");
    EXPECT_EQ(json_for_doubles(kLargest + 1, false), "\"9007199254740992\"");
    EXPECT_EQ(json_for_doubles(~std::uint64_t{0}, false), "\"18446744073709551615\"");
    EXPECT_EQ(json_for_doubles(~std::uint64_t{0}, true), "-1");
    EXPECT_EQ(json_for_doubles(static_cast<std::uint64_t>(-kLargest), true), "-9007199254740991");
    EXPECT_EQ(json_for_doubles(static_cast<std::uint64_t>(-kLargest - 1), true), "\"-9007199254740992\"");
}

TEST(FieldJson, TextOfAnyLengthAndWithSpecialsAnywhere) {
    for (std::size_t size = 0; size < 70; ++size) {
        EXPECT_EQ(json_text(std::string(size, 'x')), '"' + std::string(size, 'x') + '"');
        std::string text(size, 'x');
        for (std::size_t at = 0; at < size; ++at) {
            text[at] = '\n';
            const std::string before(at, 'x');
            EXPECT_EQ(json_text(text), '"' + before + "\\n" + std::string(size - at - 1, 'x') + '"');
            text[at] = 'x';
        }
    }
}

TEST(FieldJson, WhatIsNotUtf8IsReplaced) {
    EXPECT_EQ(json_text("\xc3\xa9\xf0\x9f\x98\x80"), "\"\xc3\xa9\xf0\x9f\x98\x80\"");
    const std::string replaced = "\xef\xbf\xbd";
    EXPECT_EQ(json_text("a\xff"
                        "b"),
              "\"a" + replaced + "b\"");
    EXPECT_EQ(json_text("\xc3"), '"' + replaced + '"');
    EXPECT_EQ(json_text("\xed\xa0\x80"), '"' + replaced + replaced + replaced + '"');  // half a pair of UTF-16
    EXPECT_EQ(json_text("\xc0\x80"), '"' + replaced + replaced + '"');                 // NUL in two bytes
}

TEST(FieldJson, NumbersAreExact) {
    const FieldClass large = ctf::IntegerClass{.size = 64, .base = ctf::DisplayBase::kHexadecimal};
    EXPECT_EQ(json_of({number(large, ~std::uint64_t{0})}), "18446744073709551615");
    const FieldClass negative = ctf::IntegerClass{.size = 64, .is_signed = true};
    EXPECT_EQ(json_of({number(negative, std::uint64_t{1} << 63)}), "-9223372036854775808");
}

TEST(FieldJson, FloatsAreSeenToBeFloats) {
    EXPECT_EQ(json_of_real(1), "1.0");
    EXPECT_EQ(json_of_real(-0.5), "-0.5");
    EXPECT_EQ(json_of_real(1e300), "1e+300");
    EXPECT_EQ(json_of_real(static_cast<double>(0.1F), 32), "0.1");
    EXPECT_EQ(json_of_real(std::numeric_limits<double>::quiet_NaN()), "\"NaN\"");
    EXPECT_EQ(json_of_real(-std::numeric_limits<double>::infinity()), "\"-Infinity\"");
}

TEST(FieldJson, EnumsHaveTheirValueAndItsLabels) {
    const FieldClass field_class =
        ctf::EnumClass{.container = {.is_signed = true}, .ranges = {{"A", 0, 1}, {"B \"b\"", 1, 2}}};
    EXPECT_EQ(json_of({number(field_class, 1)}), R"({"value":1,"labels":["A","B \"b\""]})");
    EXPECT_EQ(json_of({number(field_class, ~std::uint64_t{0})}), R"({"value":-1,"labels":[]})");
}

TEST(FieldJson, CompoundsAndVariants) {
    const FieldClass byte = ctf::IntegerClass{};
    const FieldClass array = ctf::ArrayClass{.element = byte, .length = 2};
    const FieldClass variant = ctf::VariantClass{};
    FieldValue scope;
    scope.size = 3;
    FieldValue list = number(array, 0, "list");
    list.size = 2;
    FieldValue chosen = number(variant, 0, "v");
    chosen.size = 1;
    FieldValue nothing = number(variant, 0, "w");
    EXPECT_EQ(json_of({scope, list, number(byte, 1), number(byte, 2), chosen, number(byte, 3), nothing}),
              R"({"list":[1,2],"v":3,"w":null})");
    EXPECT_EQ(json_of({FieldValue{}}), "{}");
}

}  // namespace
}  // namespace leat::viewer
