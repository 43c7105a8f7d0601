#include "ring/shared_clock.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <thread>

#include "ring/thread_writer.hpp"

namespace leat::ring {
namespace {

std::int64_t distance_to_system(const ClockPage& page) {
    std::int64_t least = INT64_MAX;
    // Of several looks the one that was not interrupted.
    for (int i = 0; i < 100; ++i) {
        const std::uint64_t before = system_now();
        const std::uint64_t ours = clock_now(page);
        const std::uint64_t after = system_now();
        const std::uint64_t outside = ours < before ? before - ours : ours > after ? ours - after : 0;
        least = std::min(least, static_cast<std::int64_t>(outside));
    }
    return least;
}

TEST(SharedClock, IsCloseToMonotonicFromTheStart) {
    const auto clock = SharedClock::create();
    ASSERT_TRUE(clock);
    EXPECT_LT(distance_to_system(clock->page()), 100'000);
}

TEST(SharedClock, StaysCloseWhileDisciplined) {
    auto clock = SharedClock::create();
    for (int i = 0; i < 2000; ++i) clock->discipline(0);
    EXPECT_LT(distance_to_system(clock->page()), 100'000);
}

TEST(SharedClock, NeverGoesBackOverItsSteps) {
    auto clock = SharedClock::create();
    std::uint64_t last = 0;
    for (int i = 0; i < 20'000; ++i) {
        if (i % 7 == 0) clock->discipline(0);
        const std::uint64_t now = clock_now(clock->page());
        ASSERT_GE(now, last) << "step " << i;
        last = now;
    }
}

// A new line starts where the old one ends: at its base both say the same, but for rounding.
TEST(SharedClock, NewLineStartsWhereTheOldOneEnds) {
    auto clock = SharedClock::create();
    if (clock->page().source != ClockSource::kTsc) GTEST_SKIP() << "the kernel does not trust the TSC";
    for (int i = 0; i < 100; ++i) {
        const ClockLine before = clock->page().lines[clock->page().generation & 1];
        clock->discipline(0);
        const ClockLine after = clock->page().lines[clock->page().generation & 1];
        const auto cycles = static_cast<unsigned __int128>(after.tsc_base - before.tsc_base);
        const auto end = before.ns_base + static_cast<std::uint64_t>((cycles * before.multiplier) >> 32);
        EXPECT_EQ(after.ns_base, end);
        EXPECT_NEAR(static_cast<double>(after.multiplier), static_cast<double>(before.multiplier),
                    static_cast<double>(before.multiplier) / 500);
    }
}

TEST(SharedClock, ReadersSeeWholeLinesWhileItIsDisciplined) {
    auto clock = SharedClock::create();
    std::atomic<bool> is_ending{false};
    std::atomic<std::int64_t> worst{0};
    std::thread reader([&] {
        while (!is_ending) {
            const std::uint64_t before = system_now();
            const auto ahead = static_cast<std::int64_t>(before - clock_now(clock->page()));
            worst = std::max<std::int64_t>(worst, ahead);  // a line half new would be off by far
        }
    });
    for (int i = 0; i < 20'000; ++i) clock->discipline(0);
    is_ending = true;
    reader.join();
    EXPECT_LT(worst, 1'000'000);
}

TEST(SharedClock, ProgramsCannotWriteIt) {
    const auto clock = SharedClock::create();
    EXPECT_EQ(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, clock->fd(), 0), MAP_FAILED);
    void* readable = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, clock->fd(), 0);
    EXPECT_NE(readable, MAP_FAILED);
    ::munmap(readable, 4096);
}

TEST(ClockPage, TscBehindTheBaseIsTheBase) {
    ClockPage page{};
    page.source = ClockSource::kTsc;
    page.lines[0] = {.tsc_base = ~0ULL, .ns_base = 123, .multiplier = 1ULL << 32, .unused = 0};
    EXPECT_EQ(clock_now(page), 123U);
}

TEST(ClockPage, GenerationChoosesTheLine) {
    ClockPage page{};
    page.source = ClockSource::kTsc;
    page.lines[0].ns_base = 10;
    page.lines[1].ns_base = 11;
    EXPECT_EQ(clock_now(page), 10U);
    page.generation = 7;
    EXPECT_EQ(clock_now(page), 11U);
}

}  // namespace
}  // namespace leat::ring
