#include "base/stranger_socket.hpp"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "base/fd_passing.hpp"
#include "base/listener.hpp"
#include "base/local_socket.hpp"
#include "base/unique_fd.hpp"
#include "support/descriptor_limit.hpp"
#include "support/patience.hpp"
#include "support/scratch_directory.hpp"
#include "support/skip.hpp"

namespace leat {
namespace {

// A TCP connection whose last close() waits, for an hour at most, until its peer has read all.
class Lingering {
  public:
    Lingering() {
        const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof address;
        auto* const generic = reinterpret_cast<sockaddr*>(&address);  // NOLINT(*-reinterpret-cast)
        EXPECT_EQ(::bind(listener.get(), generic, size), 0);
        EXPECT_EQ(::listen(listener.get(), 1), 0);
        EXPECT_EQ(::getsockname(listener.get(), generic, &size), 0);
        end_ = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        EXPECT_EQ(::connect(end_.get(), generic, size), 0);
        peer_ = UniqueFd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
        const linger hour{.l_onoff = 1, .l_linger = 3600};
        EXPECT_EQ(::setsockopt(end_.get(), SOL_SOCKET, SO_LINGER, &hour, sizeof hour), 0);
        const std::vector<char> bytes(1U << 20);
        while (::send(end_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) {
        }
    }
    // Sends it through this socket, and has it no more.
    void go_through(int socket, int flags = 0) {
        const std::array<std::byte, 1> byte{};
        EXPECT_EQ(send_with_fds(socket, byte, std::array{end_.get()}, flags), 1);
        end_.reset();
    }
    // Whether the end comes when all is read, and so nobody has it open.
    [[nodiscard]] bool is_closed() const {
        std::vector<char> bytes(1U << 20);
        ssize_t size = 0;
        do size = ::recv(peer_.get(), bytes.data(), bytes.size(), 0);
        while (size > 0);
        return size == 0;
    }

  private:
    UniqueFd end_;
    UniqueFd peer_;
};

struct Pair {
    explicit Pair(int type) {
        std::array<int, 2> ends{};
        EXPECT_EQ(::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends.data()), 0);
        ours.emplace(UniqueFd(ends[0]));
        theirs = UniqueFd(ends[1]);
    }
    std::optional<StrangerSocket> ours;
    UniqueFd theirs;
};

// Closes it, without being held up.
template <class Socket>
void close_at_once(std::optional<Socket>& socket) {
    std::atomic<bool> is_closed = false;
    std::thread closing([&] {
        socket.reset();
        is_closed = true;
    });
    EXPECT_TRUE(test::wait_until([&] { return is_closed.load(); }));
    closing.join();
}

// What comes before the message that brings it, and whether its sender has gone; perhaps without reading our answer.
enum class Before { kNothing, kMessage, kEmptyMessage };
enum class Sender { kThere, kGone, kGoneUnanswered };
class WhatStrangersSend : public testing::TestWithParam<std::tuple<int, Before, Sender>> {};

TEST_P(WhatStrangersSend, HoldsNobodyUp) {
    const auto [type, before, sender] = GetParam();
    Pair pair(type);
    Lingering lingering;
    if (before != Before::kNothing) {
        EXPECT_GE(::send(pair.theirs.get(), "hello", before == Before::kMessage ? 5 : 0, 0), 0);
    }
    lingering.go_through(pair.theirs.get());
    if (sender == Sender::kGoneUnanswered) {
        EXPECT_EQ(::send(pair.ours->get(), "done", 4, 0), 4);
    }
    if (sender != Sender::kThere) pair.theirs.reset();
    close_at_once(pair.ours);
    EXPECT_TRUE(lingering.is_closed());
}
INSTANTIATE_TEST_SUITE_P(All, WhatStrangersSend,
                         testing::Combine(testing::Values(SOCK_SEQPACKET, SOCK_STREAM),
                                          testing::Values(Before::kNothing, Before::kMessage, Before::kEmptyMessage),
                                          testing::Values(Sender::kThere, Sender::kGone, Sender::kGoneUnanswered)));

// As containers do, for this thread and those that it starts.
void forbid(unsigned call) {
    std::array<sock_filter, 4> filter{{{BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
                                       {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, call},
                                       {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | EPERM},
                                       {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}}};
    const sock_fprog program{filter.size(), filter.data()};
    EXPECT_EQ(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    EXPECT_EQ(::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0), 0);
}

std::ptrdiff_t threads() {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"), std::filesystem::directory_iterator());
}

// No thread is held up, either: none stays behind.
TEST(StrangerSocketTest, OneWayToOwnDescriptorsIsEnough) {
    std::ptrdiff_t threads_before = 0;
    for (const bool has_low_number : {false, true}) {
        if (has_low_number) StrangerSocket::reserve_low_number();
        for (const unsigned call : {SYS_close_range, SYS_unshare}) {
            std::thread([&, call] {
                if (threads_before == 0) threads_before = threads();
                forbid(call);
                Pair pair(SOCK_SEQPACKET);
                Lingering lingering;
                lingering.go_through(pair.theirs.get());
                close_at_once(pair.ours);
                EXPECT_TRUE(test::wait_until([&] { return threads() <= threads_before; }));
                EXPECT_TRUE(lingering.is_closed());
            }).join();
        }
    }
}

bool has_urgent_bytes() {
    const Pair pair(SOCK_STREAM);
    return ::send(pair.theirs.get(), "!", 1, MSG_OOB) == 1;
}

TEST(StrangerSocketTest, UrgentByteHoldsNobodyUp) {
    LEAT_NEEDS(has_urgent_bytes(), "urgent-bytes");
    for (const bool is_read_before : {false, true}) {
        Pair pair(SOCK_STREAM);
        Lingering lingering;
        EXPECT_EQ(::send(pair.theirs.get(), "hello", 5, 0), 5);
        lingering.go_through(pair.theirs.get(), MSG_OOB);
        std::array<char, 16> received{};
        if (is_read_before) {
            EXPECT_EQ(pair.ours->receive(received), 5);
            EXPECT_EQ(pair.ours->receive(received), -1);
            EXPECT_EQ(errno, ECANCELED);
        }
        close_at_once(pair.ours);
        EXPECT_TRUE(lingering.is_closed());
    }
}

TEST(StrangerSocketTest, WhoHasNotBeenAcceptedHoldsNobodyUp) {
    for (const bool is_turned_away : {false, true}) {
        const test::ScratchDirectory directory;
        const auto path = directory.path() / "socket";
        std::optional<Listener> listener(std::in_place, *listen_at(path, {.type = SOCK_STREAM | SOCK_NONBLOCK}),
                                         "clients");
        const UniqueFd before = *connect_at(path, SOCK_STREAM);
        const UniqueFd theirs = *connect_at(path, SOCK_STREAM);
        Lingering lingering;
        lingering.go_through(theirs.get());
        if (is_turned_away) {
            const test::FewDescriptorsLeft none_left(0);
            EXPECT_FALSE(listener->accept().is_open());
        }
        close_at_once(listener);
        EXPECT_TRUE(lingering.is_closed());
    }
}

TEST(StrangerSocketTest, DescriptorsAreSeenAndNotTaken) {
    Pair pair(SOCK_SEQPACKET);
    EXPECT_FALSE(pair.ours->brings_descriptors());
    const std::array<std::byte, 3> bytes{};
    EXPECT_EQ(send_with_fds(pair.theirs.get(), bytes, {}), 3);
    EXPECT_FALSE(pair.ours->brings_descriptors());
    std::array<std::byte, 16> received{};
    EXPECT_EQ(receive_with_fds(pair.ours->get(), received, 0).size, 3);
    for (std::size_t count = 1; count <= kMaxFds; ++count) {
        EXPECT_EQ(send_with_fds(pair.theirs.get(), bytes, std::vector(count, pair.theirs.get())), 3);
        const int next_before = UniqueFd(::dup(pair.theirs.get())).get();
        EXPECT_TRUE(pair.ours->brings_descriptors());
        EXPECT_EQ(UniqueFd(::dup(pair.theirs.get())).get(), next_before);
        const MessageWithFds message = receive_with_fds(pair.ours->get(), received, 0);
        EXPECT_EQ(message.fd_count, count);
        for (std::size_t i = 0; i < message.fd_count; ++i) ::close(message.fds.at(i));
    }
}

TEST(StrangerSocketTest, PeerGetsWhatWasSentBefore) {
    for (const int type : {SOCK_SEQPACKET, SOCK_STREAM}) {
        Pair pair(type);
        EXPECT_EQ(::send(pair.theirs.get(), "more", 4, 0), 4);
        EXPECT_EQ(::send(pair.ours->get(), "done", 4, 0), 4);
        pair.ours.reset();
        std::array<char, 16> received{};
        const auto receive = [&] { return ::recv(pair.theirs.get(), received.data(), received.size(), 0); };
        // Of a message that was not read, the sender is told with an error, once.
        const ssize_t size = receive();
        EXPECT_TRUE(size == 4 || (size < 0 && errno == ECONNRESET && receive() == 4)) << size;
        EXPECT_LE(receive(), 0);
    }
}

}  // namespace
}  // namespace leat
