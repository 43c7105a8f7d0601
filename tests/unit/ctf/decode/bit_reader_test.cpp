#include "ctf/decode/bit_reader.hpp"

#include <gtest/gtest.h>

#include <array>

namespace leat::ctf {
namespace {

constexpr std::array kBytes{std::byte{0b1011'0101}, std::byte{0b0000'1111}, std::byte{0xFF},
                            std::byte{0x80},        std::byte{0x01},        std::byte{0x02},
                            std::byte{0x03},        std::byte{0x04},        std::byte{0x05}};

TEST(BitReader, LittleEndianBitsStartLow) {
    BitReader reader(kBytes, 72);
    EXPECT_EQ(reader.read(3, false), 0b101U);
    EXPECT_EQ(reader.read(5, false), 0b10110U);
    EXPECT_EQ(reader.read(12, false), 0xF0FU);
}

TEST(BitReader, BigEndianBitsStartHigh) {
    BitReader reader(kBytes, 72);
    EXPECT_EQ(reader.read(3, true), 0b101U);
    EXPECT_EQ(reader.read(5, true), 0b10101U);
    EXPECT_EQ(reader.read(12, true), 0x0FFU);
}

TEST(BitReader, SixtyFourBitsMayLieInNineBytes) {
    BitReader little(kBytes, 72);
    little.skip(1);
    EXPECT_EQ(little.read(64, false), 0x04030201'80FF0FB5U >> 1U | std::uint64_t{5} << 63U);
    BitReader big(kBytes, 72);
    big.skip(4);
    EXPECT_EQ(big.read(64, true), 0x50FFF80010203040U);
}

TEST(BitReader, WholeBytesInBothOrders) {
    BitReader reader(kBytes, 72);
    reader.skip(32);
    EXPECT_EQ(reader.read(16, false), 0x0201U);
    EXPECT_EQ(reader.read(16, true), 0x0304U);
    EXPECT_EQ(reader.read(8, true), 5U);
    EXPECT_EQ(reader.remaining(), 0U);
}

TEST(BitReader, AlignmentBeyondTheEndFails) {
    BitReader reader(kBytes, 72);
    EXPECT_TRUE(reader.align(1U << 20U));
    reader.skip(1);
    EXPECT_TRUE(reader.align(16));
    EXPECT_EQ(reader.position(), 16U);
    EXPECT_FALSE(BitReader(reader).align(1U << 20U) && reader.align(1U << 20U));
    reader.skip(1);
    EXPECT_FALSE(reader.align(128));
    EXPECT_EQ(reader.position(), 17U);
}

TEST(BitReader, EndBeforeThePositionLeavesNothing) {
    BitReader reader(kBytes, 72);
    reader.skip(40);
    reader.set_end(8);
    EXPECT_EQ(reader.remaining(), 0U);
}

}  // namespace
}  // namespace leat::ctf
