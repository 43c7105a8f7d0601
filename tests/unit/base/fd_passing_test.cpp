#include "base/fd_passing.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <thread>

#include "base/unique_fd.hpp"
#include "support/patience.hpp"

namespace leat {
namespace {

std::atomic<int> handled{0};

// A socket with a timeout is not restarted by the kernel, whatever SA_RESTART says; the same goes for SIGSTOP and
// SIGCONT.
TEST(FdPassing, SignalsInterruptNeitherSide) {
    handled = 0;
    std::array<int, 2> ends{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    const UniqueFd first(ends[0]);
    const UniqueFd second(ends[1]);
    const timeval hour{.tv_sec = 3600, .tv_usec = 0};
    ASSERT_EQ(::setsockopt(first.get(), SOL_SOCKET, SO_RCVTIMEO, &hour, sizeof hour), 0);
    struct sigaction action {};
    action.sa_handler = [](int) { ++handled; };
    action.sa_flags = SA_RESTART;
    struct sigaction before {};
    ASSERT_EQ(::sigaction(SIGUSR1, &action, &before), 0);
    std::atomic<pid_t> thread{0};
    MessageWithFds received;
    std::array<std::byte, 16> bytes{};
    std::thread receiving([&] {
        thread = ::gettid();
        received = receive_with_fds(first.get(), bytes, 0);
    });
    for (int signals = 1; signals <= 3; ++signals) {
        EXPECT_TRUE(test::wait_until([&] { return thread != 0 && test::is_asleep(thread); }));
        ::pthread_kill(receiving.native_handle(), SIGUSR1);
        EXPECT_TRUE(test::wait_until([&] { return handled == signals; }));
    }
    const std::array<std::byte, 3> sent{std::byte{1}, std::byte{2}, std::byte{3}};
    const std::array<int, 1> beside{second.get()};
    EXPECT_EQ(send_with_fds(second.get(), sent, beside), 3);
    receiving.join();
    ::sigaction(SIGUSR1, &before, nullptr);
    EXPECT_EQ(received.size, 3);
    ASSERT_EQ(received.fd_count, 1U);
    ::close(received.fds[0]);
}

}  // namespace
}  // namespace leat
