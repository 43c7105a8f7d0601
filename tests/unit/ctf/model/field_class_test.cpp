#include "ctf/model/field_class.hpp"

#include <gtest/gtest.h>

namespace leat::ctf {
namespace {

const FieldClass kByte = IntegerClass{.size = 8};

TEST(FieldClass, EqualIfEveryPartIs) {
    const FieldClass one = StructClass{.members = {{"_a", ArrayClass{kByte, 3}}, {"_s", StringClass{}}}};
    const FieldClass same = StructClass{.members = {{"_a", ArrayClass{kByte, 3}}, {"_s", StringClass{}}}};
    EXPECT_EQ(one, same);
}

TEST(FieldClass, DiffersByAnElementDeepInside) {
    const FieldClass one = StructClass{.members = {{"_a", ArrayClass{kByte, 3}}}};
    const FieldClass other =
        StructClass{.members = {{"_a", ArrayClass{FieldClass(IntegerClass{.size = 8, .is_signed = true}), 3}}}};
    EXPECT_NE(one, other);
}

TEST(FieldClass, CopyIsIndependent) {
    FieldClass original = StructClass{.members = {{"_a", ArrayClass{kByte, 3}}}};
    const FieldClass copy = original;
    original.as<StructClass>()->members[0].field_class.as<ArrayClass>()->length = 4;
    EXPECT_EQ(copy.as<StructClass>()->members[0].field_class.as<ArrayClass>()->length, 3U);
}

TEST(FieldClass, StructIsAlignedAsItsWidestMember) {
    const FieldClass word = IntegerClass{.size = 32, .alignment = 32};
    EXPECT_EQ(alignment_of(FieldClass(StructClass{.members = {{"a", kByte}, {"b", SequenceClass{word, {"a"}}}}})), 32U);
    EXPECT_EQ(alignment_of(FieldClass(StructClass{.members = {{"a", kByte}}, .minimum_alignment = 64})), 64U);
}

TEST(FieldClass, DisplayNameLosesOneUnderscore) {
    EXPECT_EQ(display_name({"_a", kByte}), "a");
    EXPECT_EQ(display_name({"__a", kByte}), "_a");
    EXPECT_EQ(display_name({"a", kByte}), "a");
}

TEST(FieldClass, OnlyWholeBytesWithEncodingAreCharacters) {
    EXPECT_TRUE(is_character(IntegerClass{.size = 8, .encoding = Encoding::kUtf8}));
    EXPECT_FALSE(is_character(IntegerClass{.size = 8}));
    EXPECT_FALSE(is_character(IntegerClass{.size = 16, .encoding = Encoding::kUtf8}));
    EXPECT_FALSE(is_character(IntegerClass{.size = 8, .alignment = 1, .encoding = Encoding::kUtf8}));
}

}  // namespace
}  // namespace leat::ctf
