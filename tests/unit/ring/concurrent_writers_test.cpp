// Writers that are moved between CPUs, are interrupted by signals, and are read while they write. tests/crash also
// kills them.
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "ring/shared_clock.hpp"
#include "support/patience.hpp"
#include "support/skip.hpp"
#include "support/test_rings.hpp"

namespace leat::ring {
namespace {

using test::OnOneCpu;
using test::TestRings;
using test::Writer;

constexpr std::uint32_t kWriters = 3;
constexpr std::uint64_t kEvents = 100'000;  // of each writer

// A payload that shows whether it is whole: it has its writer and its number, twice.
struct Step {
    std::uint64_t writer;
    std::uint64_t number;
    std::array<std::uint64_t, 4> repeated;

    static Step of(std::uint64_t writer, std::uint64_t number) {
        return {writer, number, {number, ~number, writer, number}};
    }
    [[nodiscard]] bool is_whole() const { return repeated == of(writer, number).repeated; }
};

// Reads the events, counts those of each writer, and checks their order and wholeness.
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
    [[nodiscard]] std::uint64_t delivered_of(std::uint32_t writer) const {
        std::uint64_t sum = 0;
        for (const auto& of_ring : delivered_of_) sum += of_ring[writer];
        return sum;
    }
    // The number of rings that hold events of this writer.
    [[nodiscard]] std::uint64_t rings_of(std::uint32_t writer) const {
        return static_cast<std::uint64_t>(
            std::ranges::count_if(delivered_of_, [&](const auto& of_ring) { return of_ring[writer] != 0; }));
    }

  private:
    void check_first(UntrustedBytes& left, std::size_t ring) {
        const bool is_extended = left[0] == std::byte{0xff};
        left = left.subspan(is_extended ? kLargeHeader.extended_size() : kLargeHeader.short_size);
        Step step;
        std::memcpy(&step, left.data(), sizeof step);
        left = left.subspan(sizeof step);
        if (!step.is_whole() || step.writer >= kWriters || step.number <= last_[ring][step.writer])
            ADD_FAILURE() << "writer " << step.writer << ", number " << step.number << " after "
                          << last_[ring][step.writer % kWriters];
        last_[ring][step.writer % kWriters] = step.number;
        ++delivered_of_[ring][step.writer % kWriters];
        ++delivered_;
    }

    std::vector<RingReader> readers_;
    std::array<std::array<std::uint64_t, kWriters>, 128> last_{};
    std::array<std::array<std::uint64_t, kWriters>, 128> delivered_of_{};
    std::uint64_t delivered_ = 0;
};

class ConcurrentWriters : public testing::TestWithParam<Writer> {
  protected:
    void SetUp() override {
        LEAT_NEEDS(GetParam() == Writer::kOfThread || test::has_rseq(), "rseq");
        map_.clock = &clock_.page();
    }

    bool write(std::uint32_t writer, std::uint64_t number) {
        struct {
            Step step;
            char slack[kCopySlack];
        } staged{Step::of(writer, number), {}};
        test::TestWriter with(map_, HeaderKind::kLarge);
        const WriteOutcome outcome = GetParam() == Writer::kOfCpu
                                         ? leat_rseq_write(with.get(), 0, &word_, &staged, sizeof(Step), 1)
                                         : thread_write(*with.get(), *map_.rings[map_.cpu_ring_count + writer], 0,
                                                        &staged, sizeof(Step), clock_now(*map_.clock));
        EXPECT_TRUE(outcome == WriteOutcome::kWritten || outcome == WriteOutcome::kNoRoom);
        return outcome == WriteOutcome::kWritten;
    }

    // Starts the writers and reads until they are done. `between()` runs after each look.
    template <class Between>
    std::array<std::uint64_t, kWriters> run(Between between) {
        std::atomic<std::uint32_t> running{kWriters};
        std::array<std::uint64_t, kWriters> written{};
        std::vector<std::thread> writers;
        for (std::uint32_t writer = 0; writer < kWriters; ++writer)
            writers.emplace_back([&, writer] {
                threads_[writer] = ::gettid();
                std::uint64_t mine = 0;
                for (std::uint64_t number = 1; number <= kEvents || mine == 0 || !is_enough_; ++number) {
                    if (write(writer, number)) ++mine;
                }
                written[writer] = mine;
                --running;
            });
        while (running != 0) {
            reader_.drain();
            between();
        }
        for (std::thread& writer : writers) writer.join();
        reader_.drain();
        return written;
    }

    // Expects that every writer's events are all delivered, that there are no others, and that each writer wrote
    // something.
    void expect_delivered(const std::array<std::uint64_t, kWriters>& written) const {
        for (std::uint32_t writer = 0; writer < kWriters; ++writer) {
            EXPECT_EQ(reader_.delivered_of(writer), written[writer]) << "writer " << writer;
            EXPECT_GT(written[writer], 0U) << "writer " << writer;
        }
    }

    SharedClock clock_ = *SharedClock::create();
    TestRings rings_;
    RingMap map_ = rings_.map();
    StepReader reader_{rings_.set()};
    std::uint32_t word_ = 1;
    std::atomic<bool> is_enough_{true};                   // writers go on until this is true
    std::array<std::atomic<pid_t>, kWriters> threads_{};  // of the writers that have begun
};

INSTANTIATE_TEST_SUITE_P(Both, ConcurrentWriters, testing::Values(Writer::kOfCpu, Writer::kOfThread), test::name_of);

TEST_P(ConcurrentWriters, WhatIsWrittenArrives) {
    expect_delivered(run([] {}));
}

// Another thread moves the writers, so they stop anywhere in a record and continue on another CPU.
TEST_P(ConcurrentWriters, MovedBetweenCpusNothingIsTorn) {
    constexpr std::uint32_t kMoves = 300;
    const std::vector<std::uint32_t> cpus = test::usable_cpus();
    LEAT_NEEDS(cpus.size() > 1, "two-cpus");
    is_enough_ = false;
    const std::uint64_t rings = GetParam() == Writer::kOfCpu ? cpus.size() : 1;
    const auto is_everywhere = [&] {
        for (std::uint32_t writer = 0; writer < kWriters; ++writer)
            if (reader_.rings_of(writer) != rings) return false;
        return true;
    };
    const test::Patience patience;
    std::uint32_t moves = 0;
    const auto written = run([&] {
        for (std::uint32_t writer = 0; writer < kWriters; ++writer) {
            if (threads_[writer] == 0) return;
            OnOneCpu::move_to(cpus[(moves + writer) % cpus.size()], threads_[writer]);
        }
        is_enough_ = (++moves >= kMoves && is_everywhere()) || patience.is_over();
    });
    expect_delivered(written);
    EXPECT_TRUE(is_everywhere());
}

// Signal handlers that write while their thread is in the middle of an event. Only CPU rings are tested: threads that
// own a ring do not let their handlers write (tracer/careful_record.cpp).
class SignalledWriters;
SignalledWriters* signalled_test = nullptr;

class SignalledWriters : public ConcurrentWriters {
  public:
    // Called in the signal handler of a thread that was stopped at `instruction`.
    void write_from_handler(std::uintptr_t instruction) {
        // The kernel has sent an interrupted sequence to its abort handler. The signature stands right before that
        // handler.
        constexpr std::uint32_t kRseqSignature = 0x53053053;
        std::uint32_t in_front = 0;
        std::memcpy(&in_front, reinterpret_cast<const char*>(instruction) - sizeof in_front,  // NOLINT
                    sizeof in_front);
        if (in_front == kRseqSignature) ++aborted_;
        // These are events of writer 2. No thread has that number.
        if (write(2, ++next_number_)) ++written_by_handler_;
    }

  protected:
    static void handle(int, siginfo_t*, void* context) {
        const auto& registers = static_cast<const ucontext_t*>(context)->uc_mcontext;
        signalled_test->write_from_handler(static_cast<std::uintptr_t>(registers.gregs[REG_RIP]));
    }

    // Only one thread gets signals.
    std::uint64_t written_by_handler_ = 0;
    std::uint64_t next_number_ = 0;
    std::atomic<std::uint64_t> aborted_{0};
};
INSTANTIATE_TEST_SUITE_P(CpuRings, SignalledWriters, testing::Values(Writer::kOfCpu), test::name_of);

TEST_P(SignalledWriters, HandlersWriteInBetween) {
#ifdef LEAT_THREAD_SANITIZER
    constexpr std::uint64_t kAborts = 5;  // its writers are seldom in the sequence
#else
    constexpr std::uint64_t kAborts = 100;
#endif
    signalled_test = this;
    struct sigaction action {};
    action.sa_sigaction = handle;
    action.sa_flags = SA_SIGINFO;
    ASSERT_EQ(::sigaction(SIGUSR1, &action, nullptr), 0);
    std::atomic<bool> is_ending{false};
    std::uint64_t written = 0;
    std::thread writer([&] {
        for (std::uint64_t number = 1; !is_ending; ++number) {
            if (write(0, number)) ++written;
        }
    });
    EXPECT_TRUE(test::wait_until([&] { return aborted_ >= kAborts; },
                                 [&] {
                                     ::pthread_kill(writer.native_handle(), SIGUSR1);
                                     reader_.drain();
                                     std::this_thread::yield();  // they may share a CPU
                                 }))
        << "handlers seldom interrupt a record";
    is_ending = true;
    writer.join();
    reader_.drain();
    ::signal(SIGUSR1, SIG_DFL);
    EXPECT_EQ(reader_.delivered_of(0), written);
    EXPECT_EQ(reader_.delivered_of(2), written_by_handler_);
    EXPECT_GT(written, 0U);
    EXPECT_GT(written_by_handler_, 0U);
}

}  // namespace
}  // namespace leat::ring
