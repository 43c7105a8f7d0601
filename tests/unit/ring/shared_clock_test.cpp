#include "ring/shared_clock.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "ring/clock.hpp"
#include "support/patience.hpp"
#include "support/skip.hpp"

namespace leat::ring {
namespace {

std::int64_t distance_to_system(const ClockPage& page) {
    std::int64_t least = INT64_MAX;
    // Makes several tries to get one that was not interrupted.
    for (int i = 0; i < 100; ++i) {
        const std::uint64_t before = system_now();
        const std::uint64_t ours = clock_now(page);
        const std::uint64_t after = system_now();
        const std::uint64_t outside = ours < before ? before - ours : ours > after ? ours - after : 0;
        least = std::min(least, static_cast<std::int64_t>(outside));
    }
    return least;
}

// Nobody disciplines a clock while this process stands still: after some seconds of that, it is not close.
TEST(SharedClock, IsCloseToMonotonicFromTheStart) {
    EXPECT_TRUE(test::wait_until([] { return distance_to_system(SharedClock::create()->page()) < 100'000; }));
}

TEST(SharedClock, StaysCloseWhileDisciplined) {
    EXPECT_TRUE(test::wait_until([] {
        auto clock = SharedClock::create();
        for (int i = 0; i < 2000; ++i) clock->discipline(0);
        return distance_to_system(clock->page()) < 100'000;
    }));
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

// A new line starts where the old one ends: at its base both give the same time, except for rounding.
TEST(SharedClock, NewLineStartsWhereTheOldOneEnds) {
    auto clock = SharedClock::create();
    LEAT_NEEDS(clock->page().source == ClockSource::kTsc, "tsc");
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
            worst = std::max<std::int64_t>(worst, ahead);
        }
    });
    for (int i = 0; i < 20'000; ++i) clock->discipline(0);
    is_ending = true;
    reader.join();
    // Half a line, or one that was never written, is off by the time since the machine began. Whoever disciplines the
    // clock may have stood still meanwhile, between TSC and system time too.
    EXPECT_LT(worst, 1'000'000'000);
}

TEST(SharedClock, ProgramsCannotWriteIt) {
    const auto clock = SharedClock::create();
    EXPECT_EQ(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, clock->fd(), 0), MAP_FAILED);
    void* readable = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, clock->fd(), 0);
    EXPECT_NE(readable, MAP_FAILED);
    ::munmap(readable, 4096);
}

// A TSC and a system clock that the test sets. One cycle is a nanosecond.
class Hands final : public TimeSource {
  public:
    explicit Hands(Sample* now, bool* is_trusted) : now_(now), is_trusted_(is_trusted) {}
    Sample sample() override {
        now_->tsc += 1'000;
        now_->ns += 1'000;
        return *now_;
    }
    [[nodiscard]] bool is_tsc_trusted() const override { return *is_trusted_; }

  private:
    Sample* now_;
    bool* is_trusted_;
};

class TurnedClock : public testing::Test {
  protected:
    // The time that the line in force gives now.
    [[nodiscard]] std::uint64_t now() const {
        const ClockPage& page = clock_.page();
        if (page.source == ClockSource::kSystem) return now_.ns + page.system_offset;
        const ClockLine& line = page.lines[page.generation & 1];
        if (now_.tsc < line.tsc_base) return line.ns_base;
        return line.ns_base + static_cast<std::uint64_t>(
                                  (static_cast<unsigned __int128>(now_.tsc - line.tsc_base) * line.multiplier) >> 32);
    }
    void pass(std::uint64_t ns) {
        now_.tsc += ns;
        now_.ns += ns;
    }
    // Runs a second of writing with the usual ten looks, while time advances about as fast as it should.
    void expect_a_good_second() {
        const std::uint64_t begin = now();
        for (int i = 0; i < 10; ++i) {
            const std::uint64_t before = now();
            pass(100'000'000);
            clock_.discipline(0);
            EXPECT_GT(now(), before + 90'000'000);
        }
        EXPECT_NEAR(static_cast<double>(now() - begin), 1e9, 5e6);
    }

    TimeSource::Sample now_{.tsc = 5'000'000'000, .ns = 70'000'000'000};
    bool is_trusted_ = true;
    SharedClock clock_ = *SharedClock::create(std::make_unique<Hands>(&now_, &is_trusted_));
};

TEST_F(TurnedClock, GoesOnFromWhereItWasWhenTheTscRanOnDuringASuspend) {
    expect_a_good_second();
    now_.tsc += 3'600'000'000'000;  // an hour that CLOCK_MONOTONIC does not count
    const std::uint64_t woken = now();
    clock_.discipline(0);
    EXPECT_GE(now(), woken) << "records of an hour would all have the same time";
    EXPECT_EQ(clock_.page().source, ClockSource::kTsc);
    expect_a_good_second();
}

TEST_F(TurnedClock, GoesOnFromWhereItWasWhenTheTscBeganAnew) {
    expect_a_good_second();
    const std::uint64_t before = now();
    now_.tsc = 1'000;
    now_.ns += 50'000'000;
    clock_.discipline(0);
    EXPECT_GE(now(), before);
    EXPECT_LE(now(), before + 60'000'000);
    expect_a_good_second();
}

TEST_F(TurnedClock, SystemTimeGoesOnFromWhereTheTscWasLeft) {
    expect_a_good_second();
    now_.tsc += 90'000'000;  // too little to tell
    clock_.discipline(0);
    const std::uint64_t before = now();
    is_trusted_ = false;
    clock_.discipline(0);
    EXPECT_EQ(clock_.page().source, ClockSource::kSystem);
    EXPECT_GE(now(), before);
    EXPECT_LE(now(), before + 1'000'000);
    expect_a_good_second();
}

// The TSC of one CPU is ahead. Its ring has times that the other CPUs have not reached.
TEST_F(TurnedClock, CatchesUpWithACpuThatRanAhead) {
    expect_a_good_second();
    const std::uint64_t ahead = now() + 20'000'000'000;
    clock_.discipline(ahead);
    EXPECT_EQ(clock_.page().source, ClockSource::kSystem) << "that TSC is not to be trusted";
    EXPECT_GE(now(), ahead);
    EXPECT_LE(now(), ahead + 1'000'000);
    expect_a_good_second();
}

TEST_F(TurnedClock, RecordOfAnotherCenturyChangesNothing) {
    expect_a_good_second();
    clock_.discipline(~std::uint64_t{0} / 2);
    EXPECT_EQ(clock_.page().source, ClockSource::kTsc);
    expect_a_good_second();
}

TEST_F(TurnedClock, CatchesUpWhenTheTscStoodStill) {
    expect_a_good_second();
    now_.ns += 5'000'000'000;
    clock_.discipline(0);
    expect_a_good_second();
}

// The page was left by a process that was killed.
class AdoptedClock : public TurnedClock {
  protected:
    void adopt() {
        UniqueFd page(::dup(clock_.page_fd()));
        auto adopted = SharedClock::adopt(std::move(page), std::make_unique<Hands>(&now_, &is_trusted_));
        ASSERT_TRUE(adopted) << adopted.error().message;
        clock_ = *std::move(adopted);
    }
    [[nodiscard]] std::int64_t ahead_of_monotonic() const { return static_cast<std::int64_t>(now() - now_.ns); }
};

TEST_F(AdoptedClock, GoesOnWithoutAJump) {
    expect_a_good_second();
    pass(30'000'000'000);  // nobody disciplined it
    const std::uint64_t before = now();
    adopt();
    EXPECT_EQ(clock_.page().source, ClockSource::kTsc);
    EXPECT_NEAR(static_cast<double>(now()), static_cast<double>(before), 2'000);
    expect_a_good_second();
    EXPECT_LT(std::abs(ahead_of_monotonic()), 100'000);
}

// The line was a little wrong, and nobody bent it.
TEST_F(AdoptedClock, SmallErrorIsBentAway) {
    expect_a_good_second();
    now_.tsc += 1'000'000;
    adopt();
    const std::int64_t error = ahead_of_monotonic();
    for (int i = 0; i < 10; ++i) expect_a_good_second();
    EXPECT_LT(std::abs(ahead_of_monotonic()), std::abs(error) / 10);
}

TEST_F(AdoptedClock, GoesOnFromWhereProgramsWereAfterASuspendMeanwhile) {
    expect_a_good_second();
    now_.tsc += 3'600'000'000'000;  // an hour that CLOCK_MONOTONIC does not count
    const std::uint64_t before = now();
    adopt();
    EXPECT_GE(now(), before);
    clock_.discipline(0);
    EXPECT_GE(now(), before) << "records of an hour would all have the same time";
    EXPECT_LE(now(), before + 10'000'000);
    EXPECT_EQ(clock_.page().source, ClockSource::kTsc);
    for (int i = 0; i < 3; ++i) expect_a_good_second();
}

// At this distance to CLOCK_MONOTONIC it stays.
TEST_F(AdoptedClock, KeepsTheDistanceThatWasThereBefore) {
    expect_a_good_second();
    now_.tsc += 3'600'000'000'000;
    clock_.discipline(0);
    expect_a_good_second();
    const std::int64_t distance = ahead_of_monotonic();
    EXPECT_GT(distance, 3'000'000'000'000);
    adopt();
    for (int i = 0; i < 3; ++i) expect_a_good_second();
    EXPECT_NEAR(static_cast<double>(ahead_of_monotonic()), static_cast<double>(distance), 1e6);
}

TEST_F(AdoptedClock, NeverGoesBackWhenTheTscBeganAnewMeanwhile) {
    expect_a_good_second();
    const std::uint64_t before = now();
    now_.tsc = 1'000;
    now_.ns += 50'000'000;
    adopt();
    clock_.discipline(0);
    EXPECT_GE(now(), before);
    EXPECT_LE(now(), before + 200'000'000);
    expect_a_good_second();
}

// How far programs had come before it began anew, only CLOCK_MONOTONIC tells.
TEST_F(AdoptedClock, CatchesUpWhenTheTscBeganAnewLongAfterItsLastLook) {
    expect_a_good_second();
    pass(30'000'000'000);
    const std::uint64_t before = now();
    now_.tsc = 1'000;
    now_.ns += 50'000'000;
    adopt();
    clock_.discipline(0);
    EXPECT_GE(now(), before);
    EXPECT_LE(now(), before + 200'000'000);
    expect_a_good_second();
}

TEST_F(AdoptedClock, SystemTimeStays) {
    expect_a_good_second();
    is_trusted_ = false;
    clock_.discipline(0);
    const std::uint64_t before = now();
    is_trusted_ = true;
    adopt();
    EXPECT_EQ(clock_.page().source, ClockSource::kSystem);
    EXPECT_NEAR(static_cast<double>(now()), static_cast<double>(before), 2'000);
    expect_a_good_second();
}

TEST_F(AdoptedClock, LeavesTheTscThatTheKernelGaveUpMeanwhile) {
    expect_a_good_second();
    is_trusted_ = false;
    const std::uint64_t before = now();
    adopt();
    clock_.discipline(0);
    EXPECT_EQ(clock_.page().source, ClockSource::kSystem);
    EXPECT_GE(now(), before);
    expect_a_good_second();
}

TEST_F(AdoptedClock, ProgramsCannotWriteIt) {
    adopt();
    EXPECT_EQ(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, clock_.fd(), 0), MAP_FAILED);
}

TEST_F(AdoptedClock, WhatIsNoClockPageIsRefused) {
    const auto refusal_of = [](UniqueFd page) { return !SharedClock::adopt(std::move(page)).has_value(); };
    constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    for (const off_t size : {0, 4095, 8192}) {
        UniqueFd page(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
        ASSERT_EQ(::ftruncate(page.get(), size), 0);
        ASSERT_EQ(::fcntl(page.get(), F_ADD_SEALS, kSeals), 0);
        EXPECT_TRUE(refusal_of(std::move(page))) << size;
    }
    UniqueFd unsealed(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ASSERT_EQ(::ftruncate(unsealed.get(), 4096), 0);
    EXPECT_TRUE(refusal_of(std::move(unsealed)));
    EXPECT_TRUE(refusal_of(UniqueFd(::open("/dev/zero", O_RDWR | O_CLOEXEC))));
    UniqueFd zeros(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ASSERT_EQ(::ftruncate(zeros.get(), 4096), 0);
    ASSERT_EQ(::fcntl(zeros.get(), F_ADD_SEALS, kSeals), 0);
    EXPECT_TRUE(refusal_of(std::move(zeros)));
}

TEST(ClockPage, SystemTimeIsCountedFromItsOffset) {
    ClockPage page{};
    page.source = ClockSource::kSystem;
    page.system_offset = 1'000'000'000'000;
    EXPECT_GE(clock_now(page), system_now() + 999'000'000'000);
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
