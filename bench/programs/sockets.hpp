// Plain blocking sockets for the benchmark's own programs. A failure ends the program.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>

#include "base/unique_fd.hpp"

namespace leat::bench {

[[noreturn]] inline void die(const char* what) {
    std::fprintf(stderr, "%s: %s\n", what, std::strerror(errno));
    std::exit(1);
}

inline sockaddr_in loopback(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

inline UniqueFd tcp_socket() {
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!fd.is_open()) die("socket");
    const int on = 1;
    ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

inline UniqueFd connect_to(std::uint16_t port) {
    UniqueFd fd = tcp_socket();
    const sockaddr_in address = loopback(port);
    if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) die("connect");
    return fd;
}

// Sends all bytes of both parts.
inline void send_all(int fd, std::span<const std::byte> head, std::span<const std::byte> body) {
    while (!head.empty() || !body.empty()) {
        std::array<iovec, 2> parts{iovec{const_cast<std::byte*>(head.data()), head.size()},
                                   iovec{const_cast<std::byte*>(body.data()), body.size()}};
        msghdr message{};
        message.msg_iov = parts.data();
        message.msg_iovlen = parts.size();
        const ssize_t sent = ::sendmsg(fd, &message, MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR) die("send");
        auto left = static_cast<std::size_t>(sent < 0 ? 0 : sent);
        const std::size_t of_head = left < head.size() ? left : head.size();
        head = head.subspan(of_head);
        left -= of_head;
        body = body.subspan(left);
    }
}

inline void receive_all(int fd, std::span<std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t count = ::recv(fd, bytes.data(), bytes.size(), 0);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) die("receive");
        if (count == 0) {
            std::fprintf(stderr, "the relay has closed the connection\n");
            std::exit(1);
        }
        bytes = bytes.subspan(static_cast<std::size_t>(count));
    }
}

}  // namespace leat::bench
