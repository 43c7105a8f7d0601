#include "base/local_time.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
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

// Which does not ask the C library.
TEST(LocalTime, IsTheSameByARememberedTimeZone) {
    ::setenv("TZ", "UTC+3:30", 1);
    ::tzset();
    remember_time_zone();
    const auto texts = [] {
        std::string all;
        for (const std::uint64_t seconds : {0ULL, 951'782'399ULL, 951'868'800ULL, 1'000'000'000ULL, 4'102'444'800ULL})
            all += local_time_text(seconds, "%Y%m%dT%H%M%S%z %j %w;");
        return all;
    };
    const std::string expected = texts();
    const auto check_and_end = [&] {
        go_by_remembered_time_zone();
        ::setenv("TZ", "UTC-9", 1);
        ::tzset();
        std::_Exit(texts() == expected ? 0 : 1);
    };
    EXPECT_EXIT(check_and_end(), testing::ExitedWithCode(0), "");
    ::unsetenv("TZ");
    ::tzset();
}

// The time comes from a peer, so it may be anything.
TEST(LocalTime, WhatNoDateHasStaysANumber) {
    EXPECT_EQ(local_time_text(std::uint64_t{1} << 62U, "%Y"), "4611686018427387904");
}

}  // namespace
}  // namespace leat
