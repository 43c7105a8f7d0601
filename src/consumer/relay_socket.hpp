// Sockets to a relay, never blocking.
#pragma once

#include <sys/uio.h>

#include <span>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "wire/layout.hpp"

namespace leat::consumer {

// Whether the connection has come about.
bool is_connected(const UniqueFd& socket);

// What the socket takes now; 0: it is full.
Result<std::size_t> send_some(const UniqueFd& socket, std::span<iovec> parts);

// How much the other side's kernel has said to have, since the connection began.
std::uint64_t acknowledged_bytes(const UniqueFd& socket);

// What is there now, appended to `bytes`; nothing new is no error, the peer's end of the connection is one.
Result<void> receive_some(const UniqueFd& socket, wire::Bytes& bytes);

// Bytes that leave as the socket takes them.
class SendQueue {
  public:
    // Append here.
    wire::Bytes& back() { return bytes_; }
    [[nodiscard]] std::size_t size() const { return bytes_.size() - sent_; }
    [[nodiscard]] bool is_empty() const { return size() == 0; }
    Result<void> flush(const UniqueFd& socket);

  private:
    wire::Bytes bytes_;
    std::size_t sent_ = 0;
};

}  // namespace leat::consumer
