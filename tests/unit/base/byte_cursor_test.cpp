#include "base/byte_cursor.hpp"

#include <gtest/gtest.h>

#include <array>

namespace leat {
namespace {

constexpr std::array kBytes{std::byte{1}, std::byte{2}, std::byte{3}};

TEST(ByteCursor, ReadsLittleEndianInOrder) {
    ByteCursor cursor(kBytes);
    EXPECT_EQ(cursor.read<std::uint16_t>().value(), 0x0201);
    EXPECT_EQ(cursor.read<std::uint8_t>().value(), 3);
    EXPECT_EQ(cursor.remaining(), 0U);
}

TEST(ByteCursor, ReadPastEndNamesOffsetAndMovesNothing) {
    ByteCursor cursor(kBytes);
    ASSERT_TRUE(cursor.take(2));
    const auto value = cursor.read<std::uint32_t>();
    ASSERT_FALSE(value);
    EXPECT_EQ(value.error().kind, ErrorKind::kCorrupt);
    EXPECT_EQ(value.error().message, "4 bytes needed at offset 2, 1 left");
    EXPECT_EQ(cursor.offset(), 2U);
}

TEST(ByteCursor, HugeCountDoesNotWrap) {
    ByteCursor cursor(kBytes);
    ASSERT_TRUE(cursor.take(1));
    EXPECT_FALSE(cursor.take(~std::size_t{0}));
}

}  // namespace
}  // namespace leat
