#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>

#include "consumer/output.hpp"

namespace leat::output {

// Sends packets to a relay, one after the other and straight from the ring. Never blocks.
class DataLink {
  public:
    using Clock = std::chrono::steady_clock;

    DataLink() = default;
    DataLink(const DataLink&) = delete;
    DataLink& operator=(const DataLink&) = delete;
    virtual ~DataLink() = default;

    [[nodiscard]] virtual bool is_connected() const = 0;
    // Whether no packet is being sent.
    [[nodiscard]] virtual bool is_idle() const = 0;

    // Begins to send a packet; only while idle. The packet's records must not change until it has left.
    virtual void begin(const consumer::Packet& packet, std::uint64_t stream_handle) = 0;
    // Sends what may leave now; is_idle() then tells whether the packet has left. Fails when the connection is over.
    virtual Result<void> flush(Clock::time_point now) = 0;
    // Handles what has come from the other side. Fails when the connection is over.
    virtual Result<void> check() = 0;

    // Bytes that have arrived on the other side, as far as this is known.
    [[nodiscard]] virtual std::uint64_t arrived() const { return 0; }

    // When to call check() and flush() again: what to poll for, and the latest time.
    [[nodiscard]] virtual pollfd wanted() const = 0;
    [[nodiscard]] virtual Clock::time_point deadline() const { return Clock::time_point::max(); }
};

}  // namespace leat::output
