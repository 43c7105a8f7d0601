#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <vector>

#include "net/stream_socket.hpp"

namespace leat::net {
namespace {

// A line that is slower than what is to be sent at first, and never catches up: the queue never becomes empty.
TEST(SendQueue, WhatWasSentTakesNoRoom) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()), 0);
    const UniqueFd peer(ends[0]);
    StreamSocket socket{UniqueFd(ends[1])};
    constexpr std::size_t kPiece = 8U << 10;
    SendQueue queue;
    std::vector<std::byte> received(kPiece);
    std::byte next_sent{};
    std::byte next_received{};
    const auto send = [&](std::size_t bytes) {
        for (std::size_t byte = 0; byte < bytes; ++byte) {
            queue.back().push_back(next_sent);
            next_sent = static_cast<std::byte>(std::to_integer<int>(next_sent) + 1);
        }
        ASSERT_TRUE(queue.flush(socket));
    };
    send(128 * kPiece);  // more than the socket takes
    for (int i = 0; i < 1000; ++i) {
        send(kPiece);
        const ssize_t count = ::read(peer.get(), received.data(), received.size());
        ASSERT_GT(count, 0);
        for (ssize_t byte = 0; byte < count; ++byte) {
            ASSERT_EQ(received[static_cast<std::size_t>(byte)], next_received);
            next_received = static_cast<std::byte>(std::to_integer<int>(next_received) + 1);
        }
        ASSERT_TRUE(queue.flush(socket));
        ASSERT_FALSE(queue.is_empty());
        ASSERT_LE(queue.back().size(), 2 * queue.size() + kPiece) << i;
    }
}

}  // namespace
}  // namespace leat::net
