#include "host/doorbell_waiter.hpp"

#include <gtest/gtest.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include "support/patience.hpp"

namespace leat::host {
namespace {

using namespace std::chrono_literals;

// A waiter that is not woken sleeps this long, and the test fails.
const auto kForever = test::test_patience();

class DoorbellWaiterTest : public testing::Test {
  protected:
    DoorbellWaiterTest() {
        EXPECT_EQ(::pipe(pipe_.data()), 0);
        waiter_->add(doorbell_);
        fds_[0] = {pipe_[0], POLLIN, 0};
    }
    ~DoorbellWaiterTest() override {
        for (const int fd : pipe_) ::close(fd);
    }

    // Rings as a writer does.
    void ring() {
        std::atomic_ref(doorbell_).fetch_add(1);
        ::syscall(SYS_futex, &doorbell_, FUTEX_WAKE, 1, nullptr, nullptr, 0);
    }
    void make_readable() { EXPECT_EQ(::write(pipe_[1], "x", 1), 1); }
    [[nodiscard]] bool is_readable() const { return (fds_[0].revents & POLLIN) != 0; }

    // Calls this on another thread once this one sleeps.
    template <class Later>
    [[nodiscard]] static std::thread when_we_sleep(Later later) {
        return std::thread([later, sleeping = ::gettid()] {
            EXPECT_TRUE(test::wait_until([&] { return test::is_asleep(sleeping); }));
            later();
        });
    }

    std::uint32_t doorbell_ = 7;
    std::array<int, 2> pipe_{};
    std::array<pollfd, 1> fds_{};
    // Whether the bell has rung.
    bool wait(std::chrono::nanoseconds timeout) {
        waiter_->wait(fds_, timeout);
        return waiter_->has_rung(doorbell_);
    }

    std::unique_ptr<DoorbellWaiter> waiter_ = *DoorbellWaiter::start();
};

TEST_F(DoorbellWaiterTest, QuietBellEndsWithTheTime) {
    EXPECT_FALSE(wait(1ms));
    EXPECT_FALSE(is_readable());
}

TEST_F(DoorbellWaiterTest, BellThatRangBeforeIsHeardOnce) {
    ring();
    EXPECT_TRUE(wait(kForever));
    EXPECT_FALSE(wait(1ms));
}

TEST_F(DoorbellWaiterTest, BellWakesASleeper) {
    std::thread writer = when_we_sleep([this] { ring(); });
    EXPECT_TRUE(wait(kForever));
    writer.join();
}

// An internal ring wakes the sleeper. The caller does not see it as a ring of the bell.
TEST_F(DoorbellWaiterTest, DescriptorWakesASleeperToo) {
    for (int i = 0; i < 2; ++i) {
        const test::Patience patience;
        std::thread peer = when_we_sleep([this] { make_readable(); });
        // A drain for nothing is allowed.
        while (!is_readable() && !patience.is_over()) wait(kForever);
        peer.join();
        EXPECT_TRUE(is_readable());
        char byte = 0;
        EXPECT_EQ(::read(pipe_[0], &byte, 1), 1);
        fds_[0].revents = 0;
    }
    EXPECT_FALSE(wait(1ms));
}

TEST_F(DoorbellWaiterTest, EachOfSeveralBellsWakesASleeper) {
    std::uint32_t second = 3;
    waiter_->add(second);
    const test::Patience patience;
    std::thread writer = when_we_sleep([&second] {
        std::atomic_ref(second).fetch_add(1);
        ::syscall(SYS_futex, &second, FUTEX_WAKE, 1, nullptr, nullptr, 0);
    });
    EXPECT_FALSE(wait(kForever)) << "the other one rang";
    EXPECT_FALSE(patience.is_over());
    writer.join();
    EXPECT_TRUE(waiter_->has_rung(second));
    EXPECT_FALSE(waiter_->has_rung(second)) << "heard once";
    waiter_->remove(second);
    ring();
    EXPECT_TRUE(wait(kForever));
}

}  // namespace
}  // namespace leat::host
