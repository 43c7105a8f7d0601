#include "viewer/sink/field_text.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace leat::viewer {
namespace {

using ctf::FieldClass;
using ctf::FieldValue;

std::string quoted(std::string_view text) {
    TextBuffer buffer(-1);
    append_quoted(buffer, text);
    return std::string(buffer.text());
}

std::string text_of(const FieldClass& field_class, std::uint64_t number) {
    FieldValue value;
    value.field_class = &field_class;
    value.number = number;
    TextBuffer buffer(-1);
    append_fields(buffer, std::vector{value}, true);
    return std::string(buffer.text());
}

std::string text_of_real(double real) {
    const FieldClass field_class = ctf::FloatClass{};
    FieldValue value;
    value.field_class = &field_class;
    value.real = real;
    TextBuffer buffer(-1);
    append_fields(buffer, std::vector{value}, true);
    return std::string(buffer.text());
}

constexpr std::uint64_t negative(std::int64_t number) { return static_cast<std::uint64_t>(number); }

TEST(FieldText, QuotedTextHasTheEscapesOfC) {
    EXPECT_EQ(quoted("plain"), "\"plain\"");
    EXPECT_EQ(quoted("a\"b\\c?'\n\t\x1b"), R"("a\"b\\c\?\'\n\t\e")");
    EXPECT_EQ(quoted("\x01\x7f"), R"("\x01\x7f")");
    EXPECT_EQ(quoted("\xc3\xa9\xff"), "\"\xc3\xa9\xff\"");
}

// Of any size, and with what is escaped at any two places. The allocation ends where the text does, for sanitizers to
// see.
TEST(FieldText, QuotedTextIsEscapedWherever) {
    const std::string letters = "abcdefghijklmnopqrstuvwxyz";
    for (std::size_t size = 0; size < 70; ++size) {
        std::vector<char> text(size);
        for (std::size_t i = 0; i < size; ++i) text[i] = letters[i % letters.size()];
        EXPECT_EQ(quoted({text.data(), size}), "\"" + std::string(text.data(), size) + "\"");
        for (std::size_t first = 0; first < size; ++first) {
            for (const std::size_t second : {first, (first + 1) % size, (first + 15) % size, size - 1}) {
                std::vector<char> marked = text;
                marked[first] = marked[second] = '"';
                std::string expected = "\"";
                for (const char character : marked) {
                    if (character == '"') expected += '\\';
                    expected += character;
                }
                ASSERT_EQ(quoted({marked.data(), size}), expected + "\"");
            }
        }
    }
}

TEST(FieldText, IntegersInTheirBase) {
    using enum ctf::DisplayBase;
    EXPECT_EQ(text_of(ctf::IntegerClass{.size = 64}, ~std::uint64_t{0}), "18446744073709551615");
    EXPECT_EQ(text_of(ctf::IntegerClass{.size = 64, .is_signed = true}, negative(-5)), "-5");
    EXPECT_EQ(text_of(ctf::IntegerClass{.size = 8, .base = kBinary}, 22), "0b00010110");
    EXPECT_EQ(text_of(ctf::IntegerClass{.size = 8, .base = kOctal}, 0), "00");
    EXPECT_EQ(text_of(ctf::IntegerClass{.size = 32, .base = kHexadecimal}, 0xbeef), "0xBEEF");
}

TEST(FieldText, NegativeNumbersHaveWholeDigits) {
    using enum ctf::DisplayBase;
    EXPECT_EQ(text_of(ctf::IntegerClass{.size = 8, .is_signed = true, .base = kOctal}, negative(-15)), "0761");
    EXPECT_EQ(text_of(ctf::IntegerClass{.size = 8, .is_signed = true, .base = kHexadecimal}, negative(-15)), "0xF1");
    EXPECT_EQ(text_of(ctf::IntegerClass{.size = 64, .is_signed = true, .base = kHexadecimal}, negative(-1)),
              "0xFFFFFFFFFFFFFFFF");
}

TEST(FieldText, RealsHaveSixDigits) {
    EXPECT_EQ(text_of_real(0.1), "0.1");
    EXPECT_EQ(text_of_real(8589934592.0), "8.58993e+09");
    EXPECT_EQ(text_of_real(-0.0), "-0");
    EXPECT_EQ(text_of_real(1e-5), "1e-05");
    EXPECT_EQ(text_of_real(100000), "100000");
    EXPECT_EQ(text_of_real(-__builtin_inf()), "-inf");
    EXPECT_EQ(text_of_real(__builtin_nan("")), "nan");
}

TEST(FieldText, EnumShowsEachLabelOnce) {
    const FieldClass color = ctf::EnumClass{ctf::IntegerClass{.size = 8}, {{"A", 1, 3}, {"B", 2, 2}, {"A", 2, 5}}};
    EXPECT_EQ(text_of(color, 2), R"(( "A", "B" : container = 2 ))");
    EXPECT_EQ(text_of(color, 5), R"(( "A" : container = 5 ))");
    EXPECT_EQ(text_of(color, 9), "( <unknown> : container = 9 )");
}

TEST(FieldText, EnumShowsLabelsInTheOrderOfTheirFirstDeclaration) {
    const FieldClass color = ctf::EnumClass{ctf::IntegerClass{.size = 8}, {{"A", 1, 1}, {"B", 1, 5}, {"A", 2, 3}}};
    EXPECT_EQ(text_of(color, 2), R"(( "A", "B" : container = 2 ))");
}

TEST(FieldText, EnumWithAnIndexShowsTheSame) {
    ctf::EnumClass color{ctf::IntegerClass{.size = 8}, {{"A", 1, 1}, {"B", 1, 5}, {"A", 2, 3}}};
    color.labels = ctf::EnumLabels::make(color.ranges, false, SIZE_MAX);
    EXPECT_EQ(text_of(color, 2), R"(( "A", "B" : container = 2 ))");
    EXPECT_EQ(text_of(color, 5), R"(( "B" : container = 5 ))");
    EXPECT_EQ(text_of(color, 9), "( <unknown> : container = 9 )");
}

TEST(FieldText, EnumShowsSixtyFourLabelsAtMost) {
    ctf::EnumClass crowd{ctf::IntegerClass{.size = 8}};
    for (std::uint64_t i = 0; i < 100; ++i) crowd.ranges.push_back({fmt::format("L{}", i), 0, 5});
    crowd.labels = ctf::EnumLabels::make(crowd.ranges, false, SIZE_MAX);
    const std::string text = text_of(crowd, 3);
    EXPECT_NE(text.find(R"("L63", ... : container = 3 ))"), std::string::npos) << text;
}

TEST(FieldText, EnumOfASignedContainerComparesSigned) {
    const FieldClass sign = ctf::EnumClass{ctf::IntegerClass{.size = 8, .is_signed = true},
                                           {{"MINUS", negative(-5), negative(-1)}, {"PLUS", 0, 5}}};
    EXPECT_EQ(text_of(sign, negative(-3)), R"(( "MINUS" : container = -3 ))");
    EXPECT_EQ(text_of(sign, 3), R"(( "PLUS" : container = 3 ))");
}

}  // namespace
}  // namespace leat::viewer
