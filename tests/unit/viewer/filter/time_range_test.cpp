#include "viewer/filter/time_range.hpp"

#include <gtest/gtest.h>

namespace leat::viewer {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kFirst = 1'795'181'934 * kSecond + 5;  // 2026-11-20 13:38:54 UTC

std::int64_t bound(const char* text) {
    const auto parsed = TimeBound::parse(text, true);
    return parsed ? parsed->nanoseconds(kFirst).value_or(-1) : -2;
}

TEST(TimeBound, FormsOfBabeltrace2) {
    EXPECT_EQ(bound("1795181934"), kFirst - 5);
    EXPECT_EQ(bound("1795181934.5"), kFirst - 5 + kSecond / 2);
    EXPECT_EQ(bound("-1.25"), -kSecond - kSecond / 4);
    EXPECT_EQ(bound("13:38:54.000000005"), kFirst);
    EXPECT_EQ(bound("13:38"), kFirst - 5 - 54 * kSecond);
    EXPECT_EQ(bound("2026-11-20 13:38:54"), kFirst - 5);
    EXPECT_EQ(bound("1970-01-01 00:00:01"), kSecond);
}

TEST(TimeBound, FormsOfJson) {
    for (const char* text : {"2026-11-20T13:38:54.000000005Z", "2026-11-20 13:38:54.000000005Z", "13:38:54.000000005Z"})
        EXPECT_EQ(TimeBound::parse(text, false).value().nanoseconds(kFirst).value(), kFirst) << text;
    EXPECT_EQ(bound("2026-11-20T13:38"), kFirst - 5 - 54 * kSecond);
    EXPECT_EQ(bound("13:38Z"), kFirst - 5 - 54 * kSecond);
}

TEST(TimeBound, TheDayIsThatOfTheFirstAlsoBefore1970) {
    const auto last_second = TimeBound::parse("23:59:59", true).value();
    EXPECT_EQ(last_second.nanoseconds(-kSecond / 2).value(), -kSecond);
    EXPECT_EQ(last_second.nanoseconds(0).value(), 86'399 * kSecond);
}

TEST(TimeBound, OtherTextIsRefused) {
    for (const char* text : {"",
                             "x",
                             "1.",
                             "1.0000000000",
                             "1:2",
                             "13:38:",
                             "13:38:54x",
                             "2026-11-20",
                             "26-11-20 13:38",
                             "2026-11-20 13:38:54.5 ",
                             "99999999999999999999",
                             "--1",
                             "12:34.5.6",
                             "12:30.5",
                             "1Z",
                             "13:38ZZ",
                             "T13:38",
                             "2026-11-20T 13:38",
                             "2026-11-20TZ",
                             "25:00",
                             "23:60",
                             "23:59:61",
                             "2026-13-01 00:00",
                             "2026-00-01 00:00",
                             "2026-01-32 00:00"})
        EXPECT_EQ(bound(text), -2) << text;
    EXPECT_EQ(bound("9999999999999"), -1);  // too far away for 64 bits of ns
}

TEST(TimeRange, BothEndsBelongToIt) {
    auto range = TimeRange::parse("1.5", "2", {}, true).value();
    ASSERT_TRUE(range.begin_at(0));
    EXPECT_TRUE(range.is_bounded());
    EXPECT_TRUE(range.is_before(kSecond + kSecond / 2 - 1));
    EXPECT_FALSE(range.is_before(kSecond + kSecond / 2));
    EXPECT_FALSE(range.is_behind(2 * kSecond));
    EXPECT_TRUE(range.is_behind(2 * kSecond + 1));
}

TEST(TimeRange, OneTextForBoth) {
    for (const char* text : {"1,2", "[1,2]"}) {
        auto range = TimeRange::parse({}, {}, text, true).value();
        ASSERT_TRUE(range.begin_at(0));
        EXPECT_TRUE(range.is_before(0));
        EXPECT_TRUE(range.is_behind(3 * kSecond));
    }
    for (const char* text : {",", ",1", "1,", ""}) EXPECT_FALSE(TimeRange::parse({}, {}, text, true)) << text;
    EXPECT_FALSE(TimeRange::parse("1", {}, "1,2", true));
    EXPECT_FALSE(TimeRange::parse({}, {}, "12", true));
    EXPECT_FALSE(TimeRange::parse({}, {}, "1,x", true));
}

TEST(TimeRange, EndBeforeBeginIsRefused) {
    EXPECT_FALSE(TimeRange::parse("3", "2", {}, true));
    EXPECT_FALSE(TimeRange::parse("1970-01-02 00:00", "3", {}, true));
    EXPECT_FALSE(TimeRange::parse("9223372037", {}, {}, true)) << "such times are behind the last";
    // That depends on the day.
    auto range = TimeRange::parse("12:00", "3", {}, true).value();
    EXPECT_FALSE(range.begin_at(0));
}

TEST(TimeRange, WithoutBoundsTakesAll) {
    auto range = TimeRange::parse({}, {}, {}, true).value();
    ASSERT_TRUE(range.begin_at(0));
    EXPECT_FALSE(range.is_bounded());
    EXPECT_FALSE(range.is_before(INT64_MIN));
    EXPECT_FALSE(range.is_behind(INT64_MAX));
}

}  // namespace
}  // namespace leat::viewer
