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

// A TCP connection to a relay. No call blocks.
class StreamSocket {
  public:
    // Starts to connect. Bytes may be queued at once; a failure to connect shows when they are sent.
    static Result<StreamSocket> connect(const HostAddress& host, std::uint16_t port);
    // Takes over an existing connection, which must be non-blocking.
    explicit StreamSocket(UniqueFd fd) : fd_(std::move(fd)) {}

    // For poll().
    [[nodiscard]] int fd() const { return fd_.get(); }

    // Whether the connection is established.
    [[nodiscard]] bool is_connected() const;
    // Why it could not be established. Ask when the descriptor is writable.
    [[nodiscard]] Result<void> connection_error() const;

    // Sends what the socket takes now, and returns how much; 0: the socket is full.
    Result<std::size_t> send_some(std::span<iovec> parts);
    // Receives what is there now, and returns how much; 0: nothing yet. The end of the connection is an error.
    Result<std::size_t> receive_some(std::span<std::byte> bytes);
    // Appends what is there now. Fails if the peer sends more than a relay ever does.
    Result<void> receive_into(std::vector<std::byte>& bytes);

    // Bytes that the other side's kernel has acknowledged since the connection began.
    [[nodiscard]] std::uint64_t acknowledged_bytes() const;
    // Acknowledges without delay. LTTng's relay sends one reply in several writes, and each waits for the
    // acknowledgement of the one before: 40 ms by default. The kernel forgets the setting with each acknowledgement, so
    // set it again each time.
    void acknowledge_at_once() const;

  private:
    UniqueFd fd_;
};

// Bytes to send, which leave as the socket takes them.
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
