#include "viewer/sink/time_text.hpp"

#include <gtest/gtest.h>

#include <string>

namespace leat::viewer {
namespace {

constexpr std::int64_t kTime = 1'700'004'295'033'066'001;

std::string text_of(TimeFormat format, std::int64_t time_ns) {
    TextBuffer buffer(-1);
    TimeText time_text(TextOptions{.time_format = format, .is_gmt = true});
    time_text.append(buffer, time_ns);
    return std::string(buffer.text());
}

TEST(TimeText, ThreeFormats) {
    EXPECT_EQ(text_of(TimeFormat::kTimeOfDay, kTime), "23:24:55.033066001");
    EXPECT_EQ(text_of(TimeFormat::kDate, kTime), "2023-11-14 23:24:55.033066001");
    EXPECT_EQ(text_of(TimeFormat::kSeconds, kTime), "1700004295.033066001");
}

TEST(TimeText, BeforeTheOrigin) {
    EXPECT_EQ(text_of(TimeFormat::kSeconds, -1'500'000'000), "-1.500000000");
    EXPECT_EQ(text_of(TimeFormat::kSeconds, INT64_MIN), "-9223372036.854775808");
    EXPECT_EQ(text_of(TimeFormat::kDate, -1'500'000'000), "1969-12-31 23:59:58.500000000");
    EXPECT_EQ(text_of(TimeFormat::kDate, INT64_MIN), "1677-09-21 00:12:43.145224192");
}

TEST(TimeText, EndOfRepresentableTime) {
    EXPECT_EQ(text_of(TimeFormat::kDate, INT64_MAX), "2262-04-11 23:47:16.854775807");
}

TEST(TimeText, SecondsChange) {
    TextBuffer buffer(-1);
    TimeText time_text(TextOptions{.is_gmt = true});
    time_text.append(buffer, 999'999'999);
    time_text.append(buffer, 1'000'000'000);
    time_text.append(buffer, 0);
    EXPECT_EQ(buffer.text(), "00:00:00.99999999900:00:01.00000000000:00:00.000000000");
}

}  // namespace
}  // namespace leat::viewer
