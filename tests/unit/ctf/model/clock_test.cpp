#include "ctf/model/clock.hpp"

#include <gtest/gtest.h>

namespace leat::ctf {
namespace {

TEST(Clock, OffsetsAddUp) {
    const Clock clock(ClockClass{.frequency = 1'000'000, .offset_s = 17, .offset = 250});
    EXPECT_EQ(clock.nanoseconds(4), 17'000'254'000);
}

TEST(Clock, OffsetInCyclesMayHoldTheWholeEpoch) {
    const Clock clock(ClockClass{.offset = 1'795'179'933'094'775'885});
    EXPECT_EQ(clock.nanoseconds(115), 1'795'179'933'094'776'000);
}

TEST(Clock, NegativeOffsetIsBeforeTheEpoch) {
    EXPECT_EQ(Clock(ClockClass{.offset_s = -2}).nanoseconds(500'000'000), -1'500'000'000);
}

TEST(Clock, TimeThatDoesNotFitIsNone) {
    EXPECT_EQ(Clock(ClockClass{}).nanoseconds(~std::uint64_t{0}), std::nullopt);
    EXPECT_EQ(Clock(ClockClass{.offset_s = INT64_MAX}).nanoseconds(0), std::nullopt);
    EXPECT_EQ(Clock(ClockClass{.frequency = 1}).nanoseconds(~std::uint64_t{0}), std::nullopt);
    EXPECT_EQ(Clock(ClockClass{.frequency = 1, .offset_s = INT64_MAX, .offset = ~std::uint64_t{0}}).nanoseconds(0),
              std::nullopt);
}

TEST(ExtendTimestamp, NarrowValueContinuesThePreviousOne) {
    EXPECT_EQ(extend_timestamp(0x1FFF0, 0xFFF5, 16), 0x1FFF5U);
    EXPECT_EQ(extend_timestamp(0x1FFF0, 0xFFF0, 16), 0x1FFF0U);
}

TEST(ExtendTimestamp, SmallerValueWrapsOnce) {
    EXPECT_EQ(extend_timestamp(0x1FFF0, 0x0010, 16), 0x20010U);
    EXPECT_EQ(extend_timestamp(0x1FFF0, 0xFFEF, 16), 0x2FFEFU);
}

TEST(ExtendTimestamp, FullValueReplaces) { EXPECT_EQ(extend_timestamp(~std::uint64_t{0}, 5, 64), 5U); }

}  // namespace
}  // namespace leat::ctf
