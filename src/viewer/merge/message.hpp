#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ctf/decode/event_record.hpp"
#include "ctf/model/trace_class.hpp"

namespace leat::viewer {

// The packets of one ring, as people are told of it.
struct StreamIdentity {
    std::uint64_t trace_number = 0;  // no two traces that one program views have the same
    std::uint64_t class_id = 0;
    std::optional<std::uint64_t> instance_id{};
    std::string name{};                         // path of its first file, or what the relay calls it
    std::vector<std::uint64_t> lost_packets{};  // numbers of those that the network lost, as an index says; ascending
};

// Event records or packets that the tracer could not deliver, as the packets around the gap tell.
struct Loss {
    std::optional<std::uint64_t> count{};  // none if nobody knows how many, or whether any
    std::optional<std::int64_t> begin_ns{};
    std::optional<std::int64_t> end_ns{};
};

// What a stream says, one after the other: losses before a packet, its begin, its events, its end; and at its own end,
// if that is known, what the network lost of it. Missed packets are those that were there, and gone before we read
// them.
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
    std::optional<std::int64_t> time_ns{};  // none: it belongs right behind the one before
    const ctf::TraceClass* trace_class = nullptr;
    const StreamIdentity* stream = nullptr;
    const ctf::EventRecord* event = nullptr;  // of kEvent
    Loss loss{};                              // of kDiscarded..., kLost... and kMissed...
};

}  // namespace leat::viewer
