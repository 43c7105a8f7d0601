#include "session/event_difference.hpp"

#include <gtest/gtest.h>

namespace leat::session {
namespace {

using ctf::ArrayClass;
using ctf::EnumClass;
using ctf::FieldClass;
using ctf::FloatClass;
using ctf::IntegerClass;
using ctf::SequenceClass;
using ctf::StringClass;
using ctf::StructMember;

ctf::EventClass event(std::vector<StructMember> members) {
    return {.name = "a:a", .log_level = 6, .fields = ctf::StructClass{std::move(members)}};
}

// The difference of two events whose only field is of these classes.
std::string between(const FieldClass& known, const FieldClass& other) {
    return difference_between(event({{"_x", known}}), event({{"_x", other}}));
}

const IntegerClass kByte{.size = 8};

TEST(EventDifference, LogLevel) {
    ctf::EventClass known = event({});
    ctf::EventClass other = event({});
    other.log_level = 14;
    EXPECT_EQ(difference_between(known, other), "log level TRACE_INFO there, TRACE_DEBUG here");
    known.log_level.reset();
    EXPECT_EQ(difference_between(known, other), "log level none there, TRACE_DEBUG here");
    known.log_level = 99;
    EXPECT_EQ(difference_between(known, other), "log level 99 there, TRACE_DEBUG here");
}

TEST(EventDifference, Uri) {
    ctf::EventClass other = event({});
    other.model_uri = "http://example.com/other";
    EXPECT_EQ(difference_between(event({}), other), "another URI");
}

TEST(EventDifference, FieldOfOneOnly) {
    const ctf::EventClass fewer = event({{"_x", kByte}});
    const ctf::EventClass more = event({{"_x", kByte}, {"_y", kByte}});
    EXPECT_EQ(difference_between(more, fewer), "field \"y\" is only there");
    EXPECT_EQ(difference_between(fewer, more), "field \"y\" is only here");
}

TEST(EventDifference, NameOfAField) {
    EXPECT_EQ(difference_between(event({{"_x", kByte}}), event({{"_y", kByte}})),
              "there is a field \"x\" where here is \"y\"");
}

TEST(EventDifference, OrderOfFields) {
    EXPECT_EQ(difference_between(event({{"_x", kByte}, {"_y", kByte}}), event({{"_y", kByte}, {"_x", kByte}})),
              "there is a field \"x\" where here is \"y\"");
}

TEST(EventDifference, FirstOfSeveralIsTold) {
    const FieldClass word = IntegerClass{.size = 32};
    EXPECT_EQ(difference_between(event({{"_x", kByte}, {"_y", kByte}, {"_z", kByte}}),
                                 event({{"_x", kByte}, {"_y", word}, {"_z", word}})),
              "field \"y\" is uint8 there, uint32 here");
}

TEST(EventDifference, FormOfAnInteger) {
    EXPECT_EQ(between(kByte, IntegerClass{.size = 64}), "field \"x\" is uint8 there, uint64 here");
    EXPECT_EQ(between(kByte, IntegerClass{.size = 8, .is_signed = true}), "field \"x\" is uint8 there, int8 here");
    EXPECT_EQ(between(kByte, IntegerClass{.size = 8, .base = ctf::DisplayBase::kHexadecimal}),
              "field \"x\" is uint8 there, uint8 in hexadecimal here");
    EXPECT_EQ(between(IntegerClass{.size = 16}, IntegerClass{.size = 16, .byte_order = ctf::ByteOrder::kBigEndian}),
              "field \"x\" is uint16 there, uint16, big-endian here");
}

TEST(EventDifference, FormOfAField) {
    EXPECT_EQ(between(FloatClass{.size = 32}, FloatClass{.size = 64}), "field \"x\" is float32 there, float64 here");
    EXPECT_EQ(between(StringClass{}, kByte), "field \"x\" is a string there, uint8 here");
    EXPECT_EQ(between(ArrayClass{FieldClass(kByte), 4}, ArrayClass{FieldClass(kByte), 5}),
              "field \"x\" is an array of 4 uint8 there, an array of 5 uint8 here");
    EXPECT_EQ(
        between(SequenceClass{FieldClass(kByte), {"_n"}}, SequenceClass{FieldClass(FloatClass{.size = 64}), {"_n"}}),
        "field \"x\" is a sequence of uint8 there, a sequence of float64 here");
}

TEST(EventDifference, BytesAndText) {
    const IntegerClass character{.size = 8, .encoding = ctf::Encoding::kUtf8};
    EXPECT_EQ(between(ArrayClass{FieldClass(kByte), 4}, ArrayClass{FieldClass(character), 4}),
              "field \"x\" is an array of 4 uint8 there, an array of 4 uint8 as text here");
}

TEST(EventDifference, Enumeration) {
    const EnumClass known{.container = kByte, .ranges = {{"off", 0, 0}}};
    EnumClass other = known;
    other.ranges.push_back({"on", 1, 1});
    EXPECT_EQ(between(known, other),
              "field \"x\" is an enumeration of uint8 (1 labels) there, an enumeration of uint8 (2 labels) here");
    other.ranges = {{"on", 0, 0}};
    EXPECT_EQ(between(known, other), "field \"x\" is an enumeration of uint8 (1 labels) both times, with other values");
}

// Names come from programs, and the text goes to a terminal.
TEST(EventDifference, NameIsMadePrintable) {
    const std::string difference = difference_between(event({{"_x\n\x1b", kByte}}), event({}));
    for (const char c : difference) EXPECT_GE(static_cast<unsigned char>(c), ' ') << difference;
}

TEST(EventDifference, NoneIsNone) { EXPECT_EQ(between(kByte, kByte), "nothing that can be seen"); }

}  // namespace
}  // namespace leat::session
