// Writers that are moved between CPUs, interrupted by signals, and read while they write. tests/crash kills them too.
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "ring/shared_clock.hpp"
#include "support/test_rings.hpp"

namespace leat::ring {
namespace {

using test::OnOneCpu;
using test::TestRings;
using test::Writer;

constexpr std::uint32_t kWriters = 3;
constexpr std::uint64_t kEvents = 100'000;  // of each writer

// A payload that shows whether it is whole: its writer, its number, and both again.
struct Step {
    std::uint64_t writer;
    std::uint64_t number;
    std::array<std::uint64_t, 4> repeated;

    static Step of(std::uint64_t writer, std::uint64_t number) {
        return {writer, number, {number, ~number, writer, number}};
    }
    [[nodiscard]] bool is_whole() const { return repeated == of(writer, number).repeated; }
};

// Takes what comes and counts what each writer got through; order and wholeness are checked on the way.
class StepReader {
  public:
    explicit StepReader(const RingSet& set) {
        for (std::uint32_t ring = 0; ring < set.geometry().ring_count(); ++ring) readers_.push_back(set.reader(ring));
    }

    void drain() {
        for (std::size_t ring = 0; ring < readers_.size(); ++ring) {
            const auto published = readers_[ring].published();
            ASSERT_TRUE(published) << published.error().message;
            UntrustedBytes left = published->records;
            while (!left.empty()) check_first(left, ring);
            readers_[ring].release(published->head, kMinRingSize);
        }
    }

    [[nodiscard]] std::uint64_t delivered() const { return delivered_; }

  private:
    void check_first(UntrustedBytes& left, std::size_t ring) {
        const bool is_extended = left[0] == std::byte{0xff};
        left = left.subspan(is_extended ? 2 + kExtendedTail : 6);
        Step step;
        std::memcpy(&step, left.data(), sizeof step);
        left = left.subspan(sizeof step);
        if (!step.is_whole() || step.writer >= kWriters || step.number <= last_[ring][step.writer])
            ADD_FAILURE() << "writer " << step.writer << ", number " << step.number << " after "
                          << last_[ring][step.writer % kWriters];
        last_[ring][step.writer % kWriters] = step.number;
        ++delivered_;
    }

    std::vector<RingReader> readers_;
    std::array<std::array<std::uint64_t, kWriters>, 128> last_{};
    std::uint64_t delivered_ = 0;
};

class ConcurrentWriters : public testing::TestWithParam<Writer> {
  protected:
    void SetUp() override {
        if (GetParam() == Writer::kOfCpu && !test::has_rseq()) GTEST_SKIP() << "no rseq here";
        map_.clock = &clock_.page();
    }

    bool write(std::uint32_t writer, std::uint64_t number) {
        struct {
            Step step;
            char slack[kCopySlack];
        } staged{Step::of(writer, number), {}};
        const EventHeader header = event_header(HeaderKind::kLarge, 0);
        const WriteOutcome outcome = GetParam() == Writer::kOfCpu
                                         ? leat_rseq_write(&map_, &header, &enabled_, &staged, sizeof(Step), 0)
                                         : thread_write(map_, *map_.ring(map_.cpu_ring_count + writer), header, &staged,
                                                        sizeof(Step), clock_now(*map_.clock));
        EXPECT_TRUE(outcome == WriteOutcome::kWritten || outcome == WriteOutcome::kNoRoom);
        return outcome == WriteOutcome::kWritten;
    }

    // Starts the writers, reads until they are done. `between(writer, number)` runs after each event.
    template <class Between>
    std::uint64_t run(Between between) {
        std::atomic<std::uint32_t> running{kWriters};
        std::atomic<std::uint64_t> written{0};
        std::vector<std::thread> writers;
        for (std::uint32_t writer = 0; writer < kWriters; ++writer)
            writers.emplace_back([&, writer] {
                std::uint64_t mine = 0;
                for (std::uint64_t number = 1; number <= kEvents; ++number) {
                    if (write(writer, number)) ++mine;
                    between(writer, number);
                }
                written += mine;
                --running;
            });
        while (running != 0) reader_.drain();
        for (std::thread& writer : writers) writer.join();
        reader_.drain();
        return written;
    }

    SharedClock clock_ = *SharedClock::create();
    TestRings rings_;
    RingMap map_ = rings_.map();
    StepReader reader_{rings_.set()};
    std::uint32_t enabled_ = 1;
};

INSTANTIATE_TEST_SUITE_P(Both, ConcurrentWriters, testing::Values(Writer::kOfCpu, Writer::kOfThread), test::name_of);

TEST_P(ConcurrentWriters, WhatIsWrittenArrives) {
    const std::uint64_t written = run([](auto, auto) {});
    EXPECT_EQ(reader_.delivered(), written);
    EXPECT_GT(written, 0U);
}

TEST_P(ConcurrentWriters, MovedBetweenCpusNothingIsTorn) {
    const std::uint32_t cpus = possible_cpus();
    const std::uint64_t written = run([cpus](std::uint32_t writer, std::uint64_t number) {
        if (number % 32 == 0) OnOneCpu::move_to(static_cast<std::uint32_t>(number / 32 + writer) % cpus);
    });
    EXPECT_EQ(reader_.delivered(), written);
}

// Signal handlers that write, in the middle of their thread's own event. Threads that own rings keep their handlers out
// (tracer/write.cpp): CPU rings only.
ConcurrentWriters* signalled_test = nullptr;
thread_local std::uint64_t written_by_handler = 0;
thread_local std::uint64_t next_number = 0;

class SignalledWriters : public ConcurrentWriters {
  public:
    void write_from_handler() {
        // Numbers of writer 2: no thread of that number runs.
        if (write(2, ++next_number)) ++written_by_handler;
    }
};
INSTANTIATE_TEST_SUITE_P(CpuRings, SignalledWriters, testing::Values(Writer::kOfCpu), test::name_of);

void handle_signal(int) { static_cast<SignalledWriters*>(signalled_test)->write_from_handler(); }

TEST_P(SignalledWriters, HandlersWriteInBetween) {
    signalled_test = this;
    struct sigaction action {};
    action.sa_handler = handle_signal;
    ASSERT_EQ(::sigaction(SIGUSR1, &action, nullptr), 0);
    std::atomic<bool> is_ending{false};
    std::uint64_t written = 0;
    std::thread writer([&] {
        for (std::uint64_t number = 1; !is_ending; ++number) {
            if (write(0, number)) ++written;
        }
        written += written_by_handler;
    });
    for (int i = 0; i < 5'000; ++i) {
        ::pthread_kill(writer.native_handle(), SIGUSR1);
        reader_.drain();
    }
    is_ending = true;
    writer.join();
    reader_.drain();
    ::signal(SIGUSR1, SIG_DFL);
    EXPECT_EQ(reader_.delivered(), written);
}

}  // namespace
}  // namespace leat::ring
