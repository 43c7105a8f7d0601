#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "net/connecting.hpp"

namespace leat::net {

// A TCP connection to a relay that never blocks: the one place where bytes leave and enter it.
class StreamSocket {
  public:
    // Starts to connect; bytes may be queued at once, a failure shows when they are sent.
    static Result<StreamSocket> connect(const HostAddress& host, std::uint16_t port);
    // One that exists already; it must not block.
    explicit StreamSocket(UniqueFd fd) : fd_(std::move(fd)) {}

    // To poll.
    [[nodiscard]] int fd() const { return fd_.get(); }

    // Whether the connection has come about.
    [[nodiscard]] bool is_connected() const;
    // Why it did not, once the descriptor can be written to.
    [[nodiscard]] Result<void> connection_error() const;

    // Sends what the socket takes now; 0: it is full.
    Result<std::size_t> send_some(std::span<iovec> parts);
    // Receives what is there now; 0: nothing is. The end of the connection is an error.
    Result<std::size_t> receive_some(std::span<std::byte> bytes);
    // Appends what is there now; a peer that sends more than a relay ever does is refused.
    Result<void> receive_into(std::vector<std::byte>& bytes);

    // How much the other side's kernel has said to have, since the connection began.
    [[nodiscard]] std::uint64_t acknowledged_bytes() const;
    // LTTng's relay sends what belongs together in several writes, and the next one only when the last is
    // acknowledged: 40 ms, if we leave that to the system. It forgets the wish with each acknowledgement.
    void acknowledge_at_once() const;

  private:
    UniqueFd fd_;
};

// Bytes that leave as the socket takes them.
class SendQueue {
  public:
    // Append here.
    std::vector<std::byte>& back() { return bytes_; }
    [[nodiscard]] std::size_t size() const { return bytes_.size() - sent_; }
    [[nodiscard]] bool is_empty() const { return size() == 0; }
    Result<void> flush(StreamSocket& socket);

  private:
    std::vector<std::byte> bytes_;
    std::size_t sent_ = 0;
};

}  // namespace leat::net
