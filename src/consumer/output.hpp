// Where a session's packets go: a trace directory, a relay, memory.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_cursor.hpp"
#include "base/result.hpp"
#include "ctf/record/packet_header.hpp"

namespace leat::consumer {

// What the consumer cut from one ring.
struct Packet {
    ctf::PacketHeader header;
    UntrustedBytes records;  // in the ring: only programs that overwrite it touch them until the packet is stored
    // Records that were stamped before the packet begins, with the time at which it does. They go out in place of the
    // first bytes of `records`, as many as these are.
    std::vector<std::byte> late_records{};
    std::uint64_t events = 0;

    [[nodiscard]] UntrustedBytes other_records() const { return records.subspan(late_records.size()); }
};

// What leaves in front of other_records(): the packet's header, and the late records.
inline void append_head(std::vector<std::byte>& bytes, const Packet& packet) {
    const auto header = ctf::encode(packet.header);
    bytes.insert(bytes.end(), header.begin(), header.end());
    bytes.insert(bytes.end(), packet.late_records.begin(), packet.late_records.end());
}

// An output owns no thread and never waits, except in deliver() and close(): the host polls for wanted() and calls
// run(). One thread.
//
// What the consumer calls, in this order: metadata, then packets that need it. A call that fails has written nothing
// that a reader would take for whole, and may be tried again.
class Output {
  public:
    using Clock = std::chrono::steady_clock;

    Output() = default;
    Output(const Output&) = delete;
    Output& operator=(const Output&) = delete;
    virtual ~Output() = default;

    // Writes a whole unit: declarations that can be parsed with those before.
    virtual Result<void> write_metadata(std::string_view unit) = 0;
    virtual Result<void> write_packet(const Packet& packet) = 0;

    // Packets of these streams will come. Whoever reads on hears of them before anything that is newer than their first
    // event.
    virtual Result<void> announce(std::span<const std::uint64_t> /*stream_instance_ids*/) { return {}; }

    // Nothing of this stream that is still to come is older than `timestamp`. Never goes back.
    virtual void write_beacon(std::uint64_t /*stream_instance_id*/, std::uint64_t /*timestamp*/) {}

    // Nothing at all that is still to come is older than `horizon`.
    virtual void cycle_done(std::uint64_t /*horizon*/) {}

    // The stream's packets of smaller sequence numbers are stored for good: their records may be overwritten.
    // By default a packet is stored when write_packet() returns.
    [[nodiscard]] virtual std::uint64_t stored(std::uint64_t /*stream_instance_id*/) const { return ~std::uint64_t{0}; }

    // Counts up when readers begin anew, knowing nothing of any stream: each is then begun with a packet.
    [[nodiscard]] virtual std::uint64_t part() const { return 0; }

    // Bytes; larger packets may not get there.
    [[nodiscard]] virtual std::size_t max_packet_size() const { return ~std::size_t{0}; }

    // What the host calls.

    // What it waits for, and when it is due at the latest: then run() is to be called. The descriptors may change with
    // every call of the output.
    [[nodiscard]] virtual std::vector<pollfd> wanted() const { return {}; }
    [[nodiscard]] virtual Clock::time_point deadline() const { return Clock::time_point::max(); }
    // Does what can be done now. Returns whether the consumer has something to do about it: packets were stored, or a
    // new part began.
    virtual bool run() { return false; }
    // Sends what can be sent of what was written. Called after writing.
    virtual void flush() {}
    // Whether all packets are stored.
    [[nodiscard]] virtual bool is_delivered() const { return true; }
    // The end: waits until all packets are stored, as long as it goes forward.
    virtual Result<void> deliver() { return {}; }
    // Called after deliver(): readers learn that this is the end.
    virtual void close() {}

    // What befell the output, for the user; empties itself.
    [[nodiscard]] virtual std::vector<std::string> take_warnings() { return {}; }

    // Takes back what was made for a session that did not begin.
    virtual void remove_if_unused() {}
};

}  // namespace leat::consumer
