#pragma once

#include <cstdint>

#include "base/unique_fd.hpp"
#include "consumer/output.hpp"
#include "consumer/relay_socket.hpp"

namespace leat::consumer {

// How packets get to a relay: one after the other over a data connection, straight from the ring.
class DataLink {
  public:
    explicit DataLink(UniqueFd socket) : socket_(std::move(socket)) {}

    [[nodiscard]] int fd() const { return socket_.get(); }
    [[nodiscard]] bool is_connected() const { return consumer::is_connected(socket_); }
    [[nodiscard]] bool is_idle() const { return head_.empty(); }

    // Only while idle. The packet's records hold still until it has left.
    void begin(const Packet& packet, std::uint64_t stream_handle);
    // Sends what the socket takes; idle() then tells whether the packet has left. Fails when the connection is over.
    Result<void> flush();
    // A relay has nothing to say here: whatever comes is the end.
    Result<void> check();

  private:
    UniqueFd socket_;
    wire::Bytes head_;  // data header, packet header, and the first record's header if it differs; empty: idle
    UntrustedBytes records_;
    std::size_t sent_ = 0;  // of both
};

}  // namespace leat::consumer
