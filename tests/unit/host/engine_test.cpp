#include "host/engine.hpp"

#include <gtest/gtest.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <thread>
#include <utility>

#include "support/patience.hpp"

namespace leat::host {
namespace {

using namespace std::chrono_literals;

// An engine that is not woken sleeps this long, and the test fails.
const auto kForever = test::test_patience();

// Counts the calls that it gets from the host.
class CountingOutput final : public consumer::Output {
  public:
    struct Counts {
        int metadata = 0;
        int cycles = 0;
        int runs = 0;
        int closed = 0;
    };
    explicit CountingOutput(Counts& counts) : counts_(&counts) {}

    Result<void> write_metadata(std::string_view /*unit*/) override {
        ++counts_->metadata;
        return {};
    }
    Result<void> write_packet(const consumer::Packet& /*packet*/) override { return {}; }
    void cycle_done(std::uint64_t /*horizon*/) override { ++counts_->cycles; }
    bool run() override {
        ++counts_->runs;
        return false;
    }
    void close() override { ++counts_->closed; }
    [[nodiscard]] std::vector<pollfd> wanted() const override { return {{fd, POLLIN, 0}}; }

    int fd = -1;

  private:
    Counts* counts_;
};

class EngineTest : public testing::Test {
  protected:
    EngineTest() {
        EXPECT_EQ(::pipe(pipe_.data()), 0);
        for (std::size_t i = 0; i < recordings_.size(); ++i) recordings_[i] = add(*traces_[i], i);
        engine_->turn({}, 0s);  // all ticks are due at the start
        for (std::size_t i = 0; i < recordings_.size(); ++i)
            turn_until_drained(i, 2);  // and armed bells take another drain
    }
    ~EngineTest() override {
        for (const int fd : pipe_) ::close(fd);
    }

    Recording* add(session::Trace& trace, std::size_t i) {
        auto output = std::make_unique<CountingOutput>(counts_[i]);
        outputs_[i] = output.get();
        auto recording = Recording::create(trace, std::move(output), {.wake_at_part = 2});
        EXPECT_TRUE(recording) << recording.error().message;
        return &engine_->add(std::move(*recording));
    }

    static std::unique_ptr<session::Trace> make_trace(std::uint32_t read_period_us = 0) {
        const session::Channel one{.name = "one", .ring_size = ring::kMinRingSize, .read_period_us = read_period_us};
        const session::Channel other{
            .name = "other", .ring_size = ring::kMinRingSize, .read_period_us = read_period_us};
        return *session::Trace::create({.session_name = "test", .key = {}}, std::vector{one, other});
    }
    // Rings for the rings of one channel.
    static void ring(const Recording& recording, std::size_t channel = 0) {
        std::uint32_t* const bell = recording.doorbells().at(channel);
        std::atomic_ref(*bell).fetch_add(1);
        ::syscall(SYS_futex, bell, FUTEX_WAKE, 1, nullptr, nullptr, 0);
    }
    // Turns until the recording has been drained `cycles` times in all. Returns how long that took.
    Engine::Clock::duration turn_until_drained(std::size_t i, int cycles) {
        const auto start = Engine::Clock::now();
        while (counts_[i].cycles < cycles && Engine::Clock::now() - start < kForever)  // moment: patience
            engine_->turn({}, kForever);
        return Engine::Clock::now() - start;  // moment: patience
    }
    void make_readable() { EXPECT_EQ(::write(pipe_[1], "x", 1), 1); }

    std::array<std::unique_ptr<session::Trace>, 2> traces_{make_trace(), make_trace()};
    std::array<CountingOutput::Counts, 2> counts_;
    std::array<CountingOutput*, 2> outputs_{};
    std::array<int, 2> pipe_{};
    std::unique_ptr<Engine> engine_ = *Engine::create();
    std::array<Recording*, 2> recordings_{};
};

TEST_F(EngineTest, EveryRecordingBeginsWithItsMetadata) {
    for (const auto& counts : counts_) EXPECT_EQ(counts.metadata, 1);
}

// Without the bell, a recording of this channel is drained once a minute.
TEST_F(EngineTest, EachBellOfARecordingDrainsIt) {
    constexpr int kDrains = 20;
    for (auto& recording : recordings_) (void)engine_->remove(*recording);
    for (std::size_t i = 0; i < recordings_.size(); ++i) {
        traces_[i] = make_trace(session::kLongestPeriodUs);
        recordings_[i] = add(*traces_[i], i);
        turn_until_drained(i, counts_[i].cycles + 1);
    }
    for (const auto& [i, channel] : {std::pair<std::size_t, std::size_t>{0, 0}, {0, 1}, {1, 0}, {1, 1}}) {
        std::atomic<bool> is_over = false;
        std::thread writer([&, recording = recordings_[i], channel = channel] {
            while (!is_over) {
                std::this_thread::sleep_for(2ms);  // moment: by then the engine most likely sleeps
                ring(*recording, channel);
            }
        });
        EXPECT_LT(turn_until_drained(i, counts_[i].cycles + kDrains), kForever);
        is_over = true;
        writer.join();
    }
}

TEST_F(EngineTest, TicksDrainQuietRecordings) {
    const auto before = counts_;
    for (std::size_t i = 0; i < counts_.size(); ++i) EXPECT_LT(turn_until_drained(i, before[i].cycles + 1), kForever);
}

// The first drain that finds nothing arms the bells, and takes another one. Then one is due each second; otherwise it
// would be ten.
TEST_F(EngineTest, QuietRecordingsRest) {
    const auto before = counts_;
    const auto begin = Engine::Clock::now();
    Engine::Clock::duration took{};
    for (; took < 600ms; took = Engine::Clock::now() - begin)  // moment: the drains that are allowed grow with it
        engine_->turn({}, 10ms);
    for (std::size_t i = 0; i < counts_.size(); ++i) EXPECT_LE(counts_[i].cycles, before[i].cycles + 2 + took / 1s);
}

TEST_F(EngineTest, DescriptorOfTheHostEndsTheWaitAndIsNoOutputs) {
    make_readable();
    std::array own{pollfd{pipe_[0], POLLIN, 0}};
    engine_->turn(own, kForever);
    EXPECT_NE(own[0].revents & POLLIN, 0);
    for (const auto& counts : counts_) EXPECT_EQ(counts.runs, 0);
}

TEST_F(EngineTest, DescriptorOfAnOutputRunsThatOutput) {
    make_readable();
    for (std::size_t i = 0; i < recordings_.size(); ++i) {
        const auto before = counts_;
        outputs_[i]->fd = pipe_[0];
        engine_->turn({}, kForever);
        outputs_[i]->fd = -1;
        EXPECT_EQ(counts_[i].runs, before[i].runs + 1);
        EXPECT_EQ(counts_[1 - i].runs, before[1 - i].runs);
    }
}

TEST_F(EngineTest, RemovedRecordingEndsAndTheOthersGoOn) {
    engine_->finish(*recordings_[0]);
    (void)engine_->remove(*recordings_[0]);
    EXPECT_EQ(counts_[0].closed, 1);
    const int cycles = counts_[0].cycles;
    ring(*recordings_[1]);
    EXPECT_LT(turn_until_drained(1, counts_[1].cycles + 1), kForever);
    EXPECT_EQ(counts_[0].cycles, cycles);
    EXPECT_EQ(counts_[1].closed, 0);
}

// A bell that nobody hears would end every wait from then on.
TEST_F(EngineTest, BellsOfARemovedRecordingWakeNobody) {
    const auto removed = engine_->remove(*recordings_[0]);
    ring(*removed, 0);
    ring(*removed, 1);
    const auto start = Engine::Clock::now();
    int turns = 0;
    while (Engine::Clock::now() - start < 300ms) {  // moment: a slower machine takes fewer turns
        engine_->turn({}, kForever);
        ++turns;
    }
    EXPECT_LT(turns, 30);
}

}  // namespace
}  // namespace leat::host
