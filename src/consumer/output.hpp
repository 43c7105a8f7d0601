// Where a session's packets go: a trace directory, a relay, memory.
#pragma once

#include <poll.h>

#include <chrono>
#include <compare>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_cursor.hpp"
#include "base/result.hpp"
#include "ctf/record/packet_header.hpp"

namespace leat::consumer {

// A stream of a trace: the ring that its packets come from, and that ring's channel. In a packet's header is only the
// ring; the stream class says which channel.
struct StreamId {
    std::uint32_t channel = 0;  // counted from 0 in its trace
    std::uint32_t ring = 0;     // stream_instance_id

    auto operator<=>(const StreamId&) const = default;
};

// What the consumer cut from one ring.
struct Packet {
    StreamId stream{};
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

// An output owns no thread and never waits, except in chunks of a relay: the host polls for wanted() and calls run().
// One thread.
//
// What the consumer calls, in this order: metadata, then packets that need it. A call that fails has written nothing
// that a reader would take for whole, and may be tried again.
class Output {
  public:
    using Clock = std::chrono::steady_clock;

    // One whose peer takes nothing for so long is waited for no more.
    static constexpr std::chrono::seconds kPatience{10};

    Output() = default;
    Output(const Output&) = delete;
    Output& operator=(const Output&) = delete;
    virtual ~Output() = default;

    // Writes a whole unit: declarations that can be parsed with those before.
    virtual Result<void> write_metadata(std::string_view unit) = 0;
    virtual Result<void> write_packet(const Packet& packet) = 0;
    // The first call instead, by who goes on with a trace: all metadata that was written so far, or was about to be.
    virtual Result<void> restore_metadata(std::string_view text) { return write_metadata(text); }

    // Packets of these streams will come. Whoever reads on hears of them before anything that is newer than their first
    // event.
    virtual Result<void> announce(std::span<const StreamId> /*streams*/) { return {}; }

    // Nothing of this stream that is still to come is older than `timestamp`. Never goes back.
    virtual void write_beacon(StreamId /*stream*/, std::uint64_t /*timestamp*/) {}

    // Nothing at all that is still to come is older than `horizon`.
    virtual void cycle_done(std::uint64_t /*horizon*/) {}

    // The stream's packets of smaller sequence numbers are stored for good: their records may be overwritten.
    // By default a packet is stored when write_packet() returns.
    [[nodiscard]] virtual std::uint64_t stored(StreamId /*stream*/) const { return ~std::uint64_t{0}; }

    // Counts up when readers begin anew, knowing nothing of any stream: each is then begun with a packet.
    [[nodiscard]] virtual std::uint64_t part() const { return 0; }

    // Bytes; larger packets may not get there.
    static constexpr std::size_t kAnySize = ~std::size_t{0};
    [[nodiscard]] virtual std::size_t max_packet_size() const { return kAnySize; }

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
    // It stores nothing any more: check_delivered() says why. Of outputs that do not come back.
    [[nodiscard]] virtual bool is_broken() const { return false; }
    // Grows whenever its peer takes or stores something, long before a large packet is stored.
    [[nodiscard]] virtual std::uint64_t taken() const { return 0; }
    // Why nothing is stored at present, though that may pass by itself. Empty: nothing is known to stand in the way.
    [[nodiscard]] virtual std::string storage_trouble() const { return {}; }
    // An error that says which packets are not stored, if there are any.
    [[nodiscard]] virtual Result<void> check_delivered() const { return {}; }
    // The end, when all packets are stored: readers learn of it. Begin, then run() until nothing is awaited any more,
    // or as long as the host likes, then close(): what is awaited still counts as missed.
    virtual void begin_close() {}
    [[nodiscard]] virtual bool awaits_close() const { return false; }
    virtual void close() {}

    // A session goes on in another place, a chunk: what is written from then on goes there, which gets all metadata so
    // far. In two steps, so that several traces do it all or not at all: prepare, then begin or drop. Called when all
    // packets are stored. Chunks of a relay have no `directory` here.
    virtual Result<void> prepare_chunk(const std::filesystem::path& /*directory*/) {
        return unsupported("this output has no chunks");
    }
    // Returns where the chunk before is now, as the relay says; empty if the host has to move it. After an error the
    // output goes on, too: it says where.
    virtual Result<std::string> begin_chunk() { return std::string(); }
    virtual void drop_chunk() {}
    // Removes all packets of this chunk.
    virtual Result<void> clear() { return unsupported("this output has no chunks"); }

    // Writes all metadata again, with another offset of the clock and otherwise the same: readers find the one or the
    // other. Returns it.
    virtual Result<std::string> set_clock_offset(std::uint64_t /*offset*/) {
        return unsupported("this output cannot write its metadata again");
    }

    // What befell the output, for the user; empties itself.
    [[nodiscard]] virtual std::vector<std::string> take_warnings() { return {}; }

    // Packets that are stored, but not in all places that they were to go to, and never will be.
    [[nodiscard]] virtual std::uint64_t packets_missed() const { return 0; }

    // Events that are not where they were stored, because somebody had removed their files by then.
    [[nodiscard]] virtual std::uint64_t events_lost() const { return 0; }

    // Takes back what was made for a session that did not begin.
    virtual void remove_if_unused() {}
};

}  // namespace leat::consumer
