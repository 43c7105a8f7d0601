// The classes of a stream, arranged for decoding: fields in one flat array, paths of lengths and tags resolved to
// slots, fields with a meaning marked. Built once for each stream class; everything that can be wrong with a trace
// class is found here, so that decoding looks at bytes only.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.hpp"
#include "ctf/field_class.hpp"
#include "ctf/trace_class.hpp"

namespace leat::ctf {

// What the reader itself takes from a field.
enum class FieldRole : std::uint8_t {
    kNone,
    kMagic,
    kStreamId,
    kStreamInstanceId,
    kPacketSize,
    kContentSize,
    kTimestampEnd,
    kEventsDiscarded,
    kPacketSequenceNumber,
    kEventId,
};
inline constexpr std::size_t kFieldRoles = 10;

struct PlanNode {
    enum class Op : std::uint8_t { kInteger, kFloat, kString, kArray, kText, kStruct, kVariant };

    Op op = Op::kStruct;
    FieldRole role = FieldRole::kNone;
    bool is_signed = false;
    bool is_big_endian = false;
    bool is_timestamp = false;  // moves the clock of the packet
    bool is_shown = true;       // part of the event record that people see
    std::uint8_t size = 0;      // bits of integers and floats
    std::uint32_t alignment = 1;
    std::uint32_t slot = 0;         // where its value is kept for lengths and tags; 0: nobody asks
    std::uint32_t length_slot = 0;  // of sequences and variants; 0: the length is fixed
    std::uint64_t length = 0;       // of arrays
    std::uint32_t first_child = 0;  // index of the members, options, or of the one element
    std::uint32_t child_count = 0;
    std::uint32_t first_choice = 0;  // of a variant, into DecodePlan::choices
    std::uint32_t choice_count = 0;
    const FieldClass* field_class = nullptr;
    std::string_view name{};
};

// Tag values of a variant that choose one of its options.
struct PlanChoice {
    std::uint64_t lower = 0;
    std::uint64_t upper = 0;
    std::uint32_t option = 0;
};

// Index of a scope's struct in DecodePlan::nodes.
using PlanRoot = std::optional<std::uint32_t>;

struct EventPlan {
    const EventClass* event_class = nullptr;
    PlanRoot context;
    PlanRoot fields;
};

struct DecodePlan {
    const StreamClass* stream_class = nullptr;
    const ClockClass* clock = nullptr;  // that the stream's timestamps are of; null: it has none
    std::vector<PlanNode> nodes;
    std::vector<PlanChoice> choices;
    std::uint32_t slot_count = 1;
    PlanRoot packet_header;
    PlanRoot packet_context;
    PlanRoot event_header;
    PlanRoot event_context;
    std::vector<EventPlan> events;
    std::unordered_map<std::uint64_t, std::uint32_t> event_by_id;  // index into events
};

// The plan points into both classes, which must outlive it and stay where they are.
Result<DecodePlan> make_decode_plan(const TraceClass& trace_class, const StreamClass& stream_class);

}  // namespace leat::ctf
