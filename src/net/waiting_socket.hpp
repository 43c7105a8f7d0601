#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/byte_cursor.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "net/stream_socket.hpp"

namespace leat::net {

// A TCP connection whose every wait is bounded, and ends when `stop_fd` becomes readable.
class WaitingSocket {
  public:
    // Tries the addresses that getaddrinfo() has for that name, one after the other.
    static Result<WaitingSocket> connect(const std::string& host, std::uint16_t port, int stop_fd);
    // Takes over a connected socket, which must be non-blocking.
    WaitingSocket(UniqueFd fd, int stop_fd) : WaitingSocket(StreamSocket(std::move(fd)), stop_fd) {}

    Result<void> send(UntrustedBytes bytes);
    // Fills all of `bytes`.
    Result<void> receive(std::span<std::byte> bytes);
    // Sleeps this long, unless `stop_fd` becomes readable.
    void wait(std::chrono::milliseconds time) const;

    // Whether `stop_fd` is readable: that is then why calls fail.
    [[nodiscard]] bool is_stopped() const;

  private:
    WaitingSocket(StreamSocket socket, int stop_fd) : socket_(std::move(socket)), stop_fd_(stop_fd) {}

    static Result<WaitingSocket> connect(const HostAddress& address, std::uint16_t port, int stop_fd);
    // Receives at least one byte.
    Result<std::size_t> receive_some(std::span<std::byte> bytes);
    Result<void> wait_for(short events, std::chrono::milliseconds patience) const;

    StreamSocket socket_;
    int stop_fd_;
    // [taken_, received_): received, not yet asked for.
    std::vector<std::byte> input_;
    std::size_t taken_ = 0;
    std::size_t received_ = 0;
};

}  // namespace leat::net
