#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/byte_cursor.hpp"
#include "base/mapped_file.hpp"
#include "ctf/decode/decode_plan.hpp"
#include "ctf/decode/packet_decoder.hpp"
#include "ctf/model/trace_class.hpp"

namespace leat::viewer {

// A stream, which is the packets of one ring, as the viewer names it to people.
struct StreamIdentity {
    std::uint64_t trace_number = 0;  // unique among the traces that one program views
    std::uint64_t class_id = 0;
    std::optional<std::uint64_t> instance_id{};
    std::string name{};                         // path of its first file, or what the relay calls it
    std::string trace_path{};                   // of its trace, below the directory that is viewed; empty: that itself
    std::vector<std::uint64_t> lost_packets{};  // numbers that the network lost, from an index; ascending
};

// A packet whose events are told, and all that it takes to decode them. The bytes stay where they are until the next
// packet of its stream begins.
struct PacketView {
    std::uint64_t number = 0;  // no other packet that this program reads has it
    const ctf::TraceClass* trace_class = nullptr;
    const ctf::DecodePlan* plan = nullptr;
    const StreamIdentity* stream = nullptr;
    UntrustedBytes bytes{};
    std::uint64_t content_bits = 0;       // what follows is padding
    const MappedFile* mapping = nullptr;  // where the bytes are; null: in memory of our own

    // To be asked after the bytes were read, and before they are used.
    [[nodiscard]] bool is_whole() const { return mapping == nullptr || !mapping->was_shortened(); }
};

// An event that was found, and not decoded yet.
struct FoundEvent {
    const PacketView* packet = nullptr;
    const ctf::EventPlace* place = nullptr;  // in that packet

    [[nodiscard]] std::optional<std::int64_t> time_ns() const {
        return packet->plan->clock != nullptr ? std::optional(place->time_ns) : std::nullopt;
    }
};

// Event records or packets that the tracer could not deliver. The packets around the gap tell of them.
struct Loss {
    std::optional<std::uint64_t> count{};  // none if the number is unknown; it may then be 0
    std::optional<std::int64_t> begin_ns{};
    std::optional<std::int64_t> end_ns{};
};

// A stream tells in this order: the losses before a packet, its begin, its events, its end. At its own end, if that is
// known, it tells what the network lost. Missed packets did exist, but were gone before we read them.
struct Message {
    enum class Kind : std::uint8_t {
        kDiscardedEvents,
        kDiscardedPackets,
        kPacketBegin,
        kEvent,
        kPacketEnd,
        kLostPackets,
        kMissedPackets
    };

    Kind kind = Kind::kPacketBegin;
    std::optional<std::int64_t> time_ns{};  // none: the message belongs right after the one before it
    const ctf::TraceClass* trace_class = nullptr;
    const StreamIdentity* stream = nullptr;
    const PacketView* packet = nullptr;  // of kEvent; valid until the next message
    ctf::EventPlace place{};             // of kEvent, in that packet
    Loss loss{};                         // of kDiscarded..., kLost... and kMissed...

    // Whether it tells of events or packets that somebody lost.
    [[nodiscard]] bool is_loss() const {
        return kind != Kind::kPacketBegin && kind != Kind::kEvent && kind != Kind::kPacketEnd;
    }
};

}  // namespace leat::viewer
