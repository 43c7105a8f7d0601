#include "host/engine.hpp"

#include <gtest/gtest.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <thread>

#include "support/scratch_directory.hpp"

namespace leat::host {
namespace {

using namespace std::chrono_literals;

// An engine that is not woken sleeps this long, and the test fails.
constexpr auto kForever = 30s;

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
        for (std::size_t i = 0; i < recordings_.size(); ++i) recordings_[i] = add(i);
        engine_->turn({}, 0s);  // all ticks are due at the start
    }
    ~EngineTest() override {
        for (const int fd : pipe_) ::close(fd);
    }

    Recording* add(std::size_t i) {
        auto output = std::make_unique<CountingOutput>(counts_[i]);
        outputs_[i] = output.get();
        auto session = session::Session::create({.name = "test", .ring_size = ring::kMinRingSize, .uid = ::getuid()});
        auto socket = wire::AppSocket::listen(directories_[i].path());
        auto recording = Recording::create(std::move(*session), std::move(output), std::move(*socket),
                                           {.wake_after = ring::kMinRingSize / 2});
        EXPECT_TRUE(recording) << recording.error().message;
        return &engine_->add(std::move(*recording));
    }

    static void ring(const Recording& recording) {
        std::atomic_ref(recording.doorbell()).fetch_add(1);
        ::syscall(SYS_futex, &recording.doorbell(), FUTEX_WAKE, 1, nullptr, nullptr, 0);
    }
    void make_readable() { EXPECT_EQ(::write(pipe_[1], "x", 1), 1); }

    std::array<test::ScratchDirectory, 2> directories_;
    std::array<CountingOutput::Counts, 2> counts_;
    std::array<CountingOutput*, 2> outputs_{};
    std::array<int, 2> pipe_{};
    std::unique_ptr<Engine> engine_ = *Engine::create();
    std::array<Recording*, 2> recordings_{};
};

TEST_F(EngineTest, EveryRecordingBeginsWithItsMetadata) {
    for (const auto& counts : counts_) EXPECT_EQ(counts.metadata, 1);
}

TEST_F(EngineTest, BellOfEachRecordingDrainsIt) {
    for (std::size_t i = 0; i < recordings_.size(); ++i) {
        const int before = counts_[i].cycles;
        std::thread writer([&, i] {
            std::this_thread::sleep_for(20ms);  // by then the engine most likely sleeps
            ring(*recordings_[i]);
        });
        const auto start = Engine::Clock::now();
        while (counts_[i].cycles == before && Engine::Clock::now() - start < kForever) engine_->turn({}, kForever);
        writer.join();
        EXPECT_LT(Engine::Clock::now() - start, kForever);
    }
}

TEST_F(EngineTest, TicksDrainQuietRecordings) {
    const auto before = counts_;
    const auto start = Engine::Clock::now();
    while (Engine::Clock::now() - start < 300ms) engine_->turn({}, 1s);
    for (std::size_t i = 0; i < counts_.size(); ++i) EXPECT_GT(counts_[i].cycles, before[i].cycles);
}

TEST_F(EngineTest, DescriptorOfTheHostEndsTheWait) {
    make_readable();
    std::array own{pollfd{pipe_[0], POLLIN, 0}};
    engine_->turn(own, kForever);
    EXPECT_NE(own[0].revents & POLLIN, 0);
}

TEST_F(EngineTest, DescriptorOfAnOutputRunsThatOutput) {
    outputs_[1]->fd = pipe_[0];
    make_readable();
    engine_->turn({}, kForever);
    EXPECT_EQ(counts_[1].runs, 1);
    EXPECT_EQ(counts_[0].runs, 0);
}

TEST_F(EngineTest, RemovedRecordingEndsAndTheOthersGoOn) {
    const auto removed = engine_->remove(*recordings_[0]);
    removed->finish();
    EXPECT_EQ(counts_[0].closed, 1);
    const int cycles = counts_[0].cycles;
    ring(*recordings_[1]);
    ring(*removed);
    engine_->turn({}, kForever);
    EXPECT_EQ(counts_[0].cycles, cycles);
    EXPECT_EQ(counts_[1].closed, 0);
}

}  // namespace
}  // namespace leat::host
