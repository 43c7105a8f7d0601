#include "host/drain_pace.hpp"

#include <gtest/gtest.h>

namespace leat::host {
namespace {

using namespace std::chrono_literals;

TEST(DrainPace, GrowsWhileLittleIsFoundUpToTheLongest) {
    DrainPace pace(100ms);
    EXPECT_EQ(pace.pause(), DrainPace::kShortest);
    DrainPace::Duration before = pace.pause();
    while (pace.pause() != 100ms) {
        pace.note(0.2);
        ASSERT_GT(pace.pause(), before);
        ASSERT_LE(pace.pause(), 100ms);
        before = pace.pause();
    }
    pace.note(0.2);
    EXPECT_EQ(pace.pause(), 100ms);
}

TEST(DrainPace, ShrinksWhileMuchIsFoundDownToTheShortest) {
    DrainPace pace(100ms);
    for (int i = 0; i < 100; ++i) pace.note(0.2);
    pace.note(0.8);
    EXPECT_EQ(pace.pause(), 50ms);
    for (int i = 0; i < 100; ++i) pace.note(1);
    EXPECT_EQ(pace.pause(), DrainPace::kShortest);
}

// A burst is over, or something of a steady flow is there: neither says that the pause is wrong.
TEST(DrainPace, StaysAfterADrainThatFoundNothingOrEnough) {
    DrainPace pace(100ms);
    for (int i = 0; i < 5; ++i) pace.note(0.2);
    const auto pause = pace.pause();
    pace.note(0);
    EXPECT_EQ(pace.pause(), pause);
    pace.note(0.6);
    EXPECT_EQ(pace.pause(), pause);
}

TEST(DrainPace, HurriesWhenAWriterRings) {
    DrainPace pace(100ms);
    for (int i = 0; i < 100; ++i) pace.note(0.2);
    pace.hurry();
    EXPECT_EQ(pace.pause(), DrainPace::kShortest);
}

// A steady flow of which the bell rings every 10 ms settles where no writer rings, whatever it began with.
TEST(DrainPace, SteadyFlowNeedsNoBell) {
    DrainPace pace(100ms);
    const auto found = [&] { return static_cast<double>(pace.pause().count()) / 1e7; };
    for (int i = 0; i < 50; ++i) {
        ASSERT_LT(found(), 1);
        pace.note(found());
    }
    EXPECT_GE(found(), 0.5);
    EXPECT_LE(found(), 0.75);
}

// Live readers, and channels that ask for it.
TEST(DrainPace, IsNeverShorterThanTheShortest) {
    DrainPace pace(DrainPace::Duration::zero());
    for (int i = 0; i < 10; ++i) pace.note(0.1);
    EXPECT_EQ(pace.pause(), DrainPace::kShortest);
}

}  // namespace
}  // namespace leat::host
