#include "cli/steer/quantities.hpp"

#include <gtest/gtest.h>

namespace leat::cli {
namespace {

TEST(Period, MicrosecondsUnlessAUnitIsGiven) {
    EXPECT_EQ(parse_period("0"), 0U);
    EXPECT_EQ(parse_period("250"), 250U);
    EXPECT_EQ(parse_period("250us"), 250U);
    EXPECT_EQ(parse_period("250ms"), 250'000U);
    EXPECT_EQ(parse_period("2s"), 2'000'000U);
    EXPECT_EQ(parse_period("3m"), 180'000'000U);
    EXPECT_EQ(parse_period("1h"), 3'600'000'000U);
}

TEST(Period, OtherTextIsRefused) {
    for (const char* text : {"", "s", "-1", "+1", " 1", "1 s", "1.5s", "1x", "1S", "0x10", "99999999999999999999"})
        EXPECT_FALSE(parse_period(text)) << text;
}

TEST(Period, OverflowIsRefused) {
    EXPECT_TRUE(parse_period("9223372036854775807"));
    EXPECT_FALSE(parse_period("9223372036854775808"));
    EXPECT_FALSE(parse_period("9223372036854775807ms"));
}

TEST(Size, BytesUnlessAUnitIsGiven) {
    EXPECT_EQ(parse_size("0"), 0U);
    EXPECT_EQ(parse_size("65536"), 65536U);
    for (const char* text : {"64K", "64k", "64KB", "64KiB", "64kib", "65536B"})
        EXPECT_EQ(parse_size(text), 65536U) << text;
    EXPECT_EQ(parse_size("2M"), 2U << 20);
    EXPECT_EQ(parse_size("3G"), 3ULL << 30);
}

TEST(Size, OtherTextIsRefused) {
    for (const char* text : {"", "K", "-1", "1 K", "1.5M", "3q", "1KK", "1KBiB", "0x10", "9999999999999G"})
        EXPECT_FALSE(parse_size(text)) << text;
}

}  // namespace
}  // namespace leat::cli
