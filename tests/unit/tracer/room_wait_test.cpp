// Channels that block: who waits for room, for how long, and who does not.
#include "tracer/room_wait.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "ring/clock.hpp"
#include "ring/sanitizers.hpp"
#include "support/attached_tracer.hpp"
#include "support/patience.hpp"
#include "support/skip.hpp"

namespace leat::tracer {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using ring::DiscardReason;
using test::AttachedTracer;
using test::Writer;

constexpr auto kTimeout = 20ms;
constexpr std::uint32_t kTimeoutUs = 20'000;

void allow_blocking(const char* value) {
    ::setenv("LEAT_ALLOW_BLOCKING", value, 1);
    prepare_blocking();
}

class RoomWaits : public testing::TestWithParam<Writer> {
  protected:
    RoomWaits() {
        if (GetParam() == Writer::kOfThread) tracer_.do_without_rseq();
        allow_blocking("1");
    }
    ~RoomWaits() override {
        ::unsetenv("LEAT_ALLOW_BLOCKING");
        prepare_blocking();
    }
    void SetUp() override {
        LEAT_NEEDS(GetParam() == Writer::kOfThread || test::has_rseq(), "rseq");
        // The ring is full.
        for (std::uint64_t i = 0; i < 2 * AttachedTracer::kRingSize / AttachedTracer::kRecordSize; ++i) tracer_.emit();
        ring_ = tracer_.used_ring();
        records_ = tracer_.records();
        discarded_ = tracer_.discarded();
        tracer_.channel().blocking_timeout_us = wire::kBlocksForever;
        // The consumer lives for twice that long: this process may stand still.
        tracer_.channel().set->heartbeat = ring::clock_now(*tracer_.channel().map.clock) + ring::kLongestSilence;
    }
    [[nodiscard]] std::uint64_t new_records() const { return tracer_.records() - records_; }
    [[nodiscard]] std::uint64_t newly_discarded() const { return tracer_.discarded() - discarded_; }
    // As the consumer does.
    void release_all() const {
        __atomic_store_n(&ring_->tail, __atomic_load_n(&ring_->head, __ATOMIC_ACQUIRE), __ATOMIC_RELEASE);
    }
    Clock::duration time_of_emit() {
        const auto begin = Clock::now();
        tracer_.emit();
        return Clock::now() - begin;  // moment: it is compared with what the tracer must wait, and more is allowed
    }
    // Calls this on another thread once this one has rung, and sleeps.
    template <class Later>
    [[nodiscard]] std::thread when_it_waits(Later later) {
        ring_->limit = ring_->head;
        return std::thread([this, later, bells = tracer_.bells(), waiting = ::gettid()] {
            EXPECT_TRUE(test::wait_until([&] { return tracer_.bells() != bells && test::is_asleep(waiting); }))
                << "it does not wait";
            later();
        });
    }
    template <class Later>
    void emit_and(Later later) {
        std::thread other = when_it_waits(later);
        tracer_.emit();
        other.join();
    }

    AttachedTracer tracer_;
    ring::RingHeader* ring_ = nullptr;
    std::uint64_t records_ = 0;
    std::uint64_t discarded_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Both, RoomWaits, testing::Values(Writer::kOfCpu, Writer::kOfThread), test::name_of);

TEST_P(RoomWaits, UntilThereIsRoom) {
    errno = EDOM;
    emit_and([&] { release_all(); });
    EXPECT_EQ(errno, EDOM);
    EXPECT_EQ(new_records(), 1U);
    EXPECT_EQ(newly_discarded(), 0U);
}

TEST_P(RoomWaits, RingsBeforeItNaps) {
    const std::uint32_t bells = tracer_.bells();
    emit_and([&] {
        EXPECT_EQ(tracer_.bells(), bells + 1);
        release_all();
    });
}

TEST_P(RoomWaits, TimeoutIsCountedAndNobodyWaitsUntilTheConsumerHasMadeRoom) {
    tracer_.channel().blocking_timeout_us = kTimeoutUs;
    EXPECT_GE(time_of_emit(), kTimeout);
    EXPECT_EQ(newly_discarded(), 1U);
    constexpr std::uint64_t kEvents = 10'000;  // they would take more than three minutes
    const auto begin = Clock::now();
    for (std::uint64_t i = 0; i < kEvents; ++i) tracer_.emit();
    EXPECT_LT(Clock::now() - begin, test::test_patience());  // moment: patience
    EXPECT_EQ(newly_discarded(), 1 + kEvents);
    EXPECT_EQ(tracer_.discarded(), tracer_.discarded(DiscardReason::kRingFull));
    // Room for one more.
    ring_->tail += 2 * AttachedTracer::kRecordSize;
    Clock::duration last{};
    while (newly_discarded() == 1 + kEvents && new_records() < 10) last = time_of_emit();
    EXPECT_GE(last, kTimeout) << "the first one without room waits again";
    EXPECT_GE(new_records(), 1U);
}

TEST_P(RoomWaits, NotForAConsumerThatIsDead) {
    tracer_.channel().set->heartbeat = ring::clock_now(*tracer_.channel().map.clock) - ring::kLongestSilence - 1;
    tracer_.emit();
    EXPECT_EQ(newly_discarded(), 1U);
}

TEST_P(RoomWaits, NotForATimeThatNobodyHasReached) {
    tracer_.channel().set->heartbeat = ~std::uint64_t{0};
    tracer_.emit();
    EXPECT_EQ(newly_discarded(), 1U);
}

TEST_P(RoomWaits, NoLongerForAConsumerThatDies) {
    emit_and([&] { __atomic_store_n(&tracer_.channel().set->heartbeat, 0, __ATOMIC_RELAXED); });
    EXPECT_EQ(newly_discarded(), 1U);
}

TEST_P(RoomWaits, NotInAProgramThatDoesNotAllowIt) {
    for (const char* const value : {"", "0"}) {
        allow_blocking(value);
        tracer_.emit();
    }
    EXPECT_EQ(newly_discarded(), 2U);
}

TEST_P(RoomWaits, NotInAChannelThatDiscards) {
    tracer_.channel().blocking_timeout_us = wire::kNoBlocking;
    tracer_.emit();
    EXPECT_EQ(newly_discarded(), 1U);
}

TEST_P(RoomWaits, EventThatIsSwitchedOffMeanwhileIsNone) {
    emit_and([&] { tracer_.switch_to({}); });
    EXPECT_EQ(new_records(), 0U);
    EXPECT_EQ(newly_discarded(), 0U);
}

// What lies where its rings were has room, which nobody reads.
TEST_P(RoomWaits, EventOfAChannelThatIsDisplacedMeanwhileIsCounted) {
    std::vector<std::unique_ptr<test::OtherChannel>> others;
    emit_and([&] {
        for (std::uint32_t i = 0; i < kMaxChannels; ++i) others.push_back(std::make_unique<test::OtherChannel>(0));
    });
    EXPECT_EQ(tracer_.control().not_attached().value(), 1U);
    EXPECT_EQ(new_records() + newly_discarded(), 0U);
}

AttachedTracer* tracer_of_handler = nullptr;
std::vector<char> staged_of_handler;

TEST_P(RoomWaits, NotInASignalHandlerThatInterruptsAWait) {
    struct sigaction action {};
    struct sigaction old {};
    action.sa_handler = [](int) { tracer_of_handler->emit(staged_of_handler); };
    tracer_of_handler = &tracer_;
    staged_of_handler.assign(100 + LEAT_STAGE_SLACK, 'h');
    ::sigaction(SIGUSR1, &action, &old);
    const pthread_t self = ::pthread_self();
    emit_and([&] {
        ::pthread_kill(self, SIGUSR1);
        EXPECT_TRUE(test::wait_until([&] { return newly_discarded() == 1; }));
        release_all();
    });
    ::sigaction(SIGUSR1, &old, nullptr);
    EXPECT_EQ(new_records(), 1U);
    EXPECT_EQ(newly_discarded(), 1U);
}

sigjmp_buf before_wait;

TEST_P(RoomWaits, HandlerThatJumpsOutOfAWaitCostsOneEvent) {
#ifdef LEAT_THREAD_SANITIZER
    LEAT_NEEDS(false, "sanitizers");  // signals come late with this one, and not in the wait
#endif
    struct sigaction action {};
    struct sigaction old {};
    static volatile sig_atomic_t has_jumped;
    has_jumped = 0;
    action.sa_handler = [](int) {
        if (has_jumped != 0 || thread_state.is_writing != 0) return;  // between two naps
        has_jumped = 1;
        ::siglongjmp(before_wait, 1);
    };
    ::sigaction(SIGUSR1, &action, &old);
    std::thread other = when_it_waits([self = ::pthread_self()] {
        EXPECT_TRUE(test::wait_until([] { return has_jumped != 0; },
                                     [self] {
                                         ::pthread_kill(self, SIGUSR1);
                                         std::this_thread::sleep_for(1ms);  // moment: between two looks
                                     }));
    });
    if (sigsetjmp(before_wait, 1) == 0) tracer_.emit();
    other.join();
    ::sigaction(SIGUSR1, &old, nullptr);
    EXPECT_EQ(new_records() + newly_discarded(), 0U);
    // The ring gets full again, and its writers wait again.
    release_all();
    constexpr std::uint64_t kEvents = 2 * AttachedTracer::kRingSize / AttachedTracer::kRecordSize;
    std::uint64_t rounds = 0;
    std::thread consumer([&] {
        while (new_records() < kEvents && newly_discarded() == 0) {
            std::this_thread::sleep_for(1ms);  // moment: between two looks
            release_all();
            ++rounds;
        }
    });
    for (std::uint64_t i = 0; i < kEvents; ++i) (void)time_of_emit();
    consumer.join();
    EXPECT_EQ(new_records(), kEvents);
    EXPECT_EQ(newly_discarded(), 0U);
    EXPECT_GE(rounds, 1U);
}

}  // namespace
}  // namespace leat::tracer
