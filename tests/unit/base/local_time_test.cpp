#include "base/local_time.hpp"

#include <gtest/gtest.h>

#include <ctime>

namespace leat {
namespace {

TEST(LocalTime, IsWrittenAsTheFormatSays) {
    ::setenv("TZ", "UTC-2", 1);
    ::tzset();
    EXPECT_EQ(local_time_text(1'000'000'000, "%Y%m%d-%H%M%S"), "20010909-034640");
    EXPECT_EQ(local_time_text(1'000'000'000, "%Y%m%dT%H%M%S%z"), "20010909T034640+0200");
    ::unsetenv("TZ");
    ::tzset();
}

// The time comes from a peer, so it may be anything.
TEST(LocalTime, WhatNoDateHasStaysANumber) {
    EXPECT_EQ(local_time_text(std::uint64_t{1} << 62U, "%Y"), "4611686018427387904");
}

}  // namespace
}  // namespace leat
