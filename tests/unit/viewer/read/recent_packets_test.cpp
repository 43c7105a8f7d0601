#include "viewer/read/recent_packets.hpp"

#include <gtest/gtest.h>

#include <string_view>

namespace leat::viewer {
namespace {

TEST(RecentPackets, WhatIsKeptIsOfThatPacketAlone) {
    RecentPackets<std::string_view> recent;
    EXPECT_EQ(recent.of(1), "");
    recent.of(1) = "one";
    recent.of(2) = "two";
    EXPECT_EQ(recent.of(1), "one");
    EXPECT_EQ(recent.of(2), "two");
    // Whoever has the same place takes it.
    for (std::uint64_t number = 3; number < 100'000; ++number) ASSERT_EQ(recent.of(number), "") << number;
    EXPECT_EQ(recent.of(1), "");
}

TEST(RecentPackets, MayForgetThemAll) {
    RecentPackets<std::string_view> recent;
    recent.of(7) = "seven";
    recent.forget();
    EXPECT_EQ(recent.of(7), "");
}

}  // namespace
}  // namespace leat::viewer
