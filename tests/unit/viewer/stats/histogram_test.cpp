#include "viewer/stats/histogram.hpp"

#include <gtest/gtest.h>

#include <bit>

namespace leat::viewer {
namespace {

TEST(Histogram, SmallValuesAreExact) {
    Histogram histogram;
    for (std::uint64_t value = 0; value <= 63; ++value) histogram.add(value);
    EXPECT_EQ(histogram.count(), 64U);
    EXPECT_EQ(histogram.least(), 0U);
    EXPECT_EQ(histogram.most(), 63U);
    EXPECT_EQ(histogram.mean(), 31.5);
    for (std::uint64_t value = 0; value <= 63; ++value)
        EXPECT_EQ(histogram.quantile(static_cast<double>(value + 1) / 64), value);
}

TEST(Histogram, LargeValuesAreWithinThreePercent) {
    for (unsigned bit = 6; bit < 64; ++bit)
        for (const std::uint64_t value :
             {std::uint64_t{1} << bit, (std::uint64_t{1} << bit) + 1, (std::uint64_t{2} << bit) - 1}) {
            Histogram histogram;
            histogram.add(value);
            histogram.add(UINT64_MAX);
            const std::uint64_t median = histogram.quantile(0.5);
            EXPECT_GE(median, value);
            EXPECT_LE(median - value, value / 31) << value;
        }
}

TEST(Histogram, OctavesHaveAllValues) {
    Histogram histogram;
    for (const std::uint64_t value : {0ULL, 1ULL, 3ULL, 64ULL, 127ULL, 128ULL, 1'000'000ULL, ~0ULL})
        histogram.add(value);
    std::uint64_t sum = 0;
    std::uint64_t next = 0;
    for (const auto& octave : histogram.octaves()) {
        EXPECT_EQ(octave.lowest, next);
        EXPECT_EQ(std::bit_width(octave.lowest), std::bit_width(octave.highest));
        next = octave.highest + 1;
        sum += octave.count;
    }
    EXPECT_EQ(next, 0U);  // behind the last number
    EXPECT_EQ(sum, 8U);
}

TEST(Histogram, NothingIsNothing) {
    const Histogram histogram;
    EXPECT_EQ(histogram.count() + histogram.least() + histogram.most() + histogram.quantile(0.5), 0U);
    EXPECT_TRUE(histogram.octaves().empty());
}

}  // namespace
}  // namespace leat::viewer
