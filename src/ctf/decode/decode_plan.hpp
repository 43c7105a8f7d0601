// The classes of a stream, arranged for decoding: fields in one flat array, paths of lengths and tags resolved to
// slots, fields with a meaning marked. Built once for each stream class, and longer by the events that come to it;
// everything that can be wrong with a trace class is found here, so that decoding looks at bytes only.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "ctf/model/field_class.hpp"
#include "ctf/model/trace_class.hpp"

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
    std::uint32_t tag_labels = 0;   // of a variant, into DecodePlan::tag_labels; 0: the tag's enum has no index
    std::uint64_t length = 0;       // of arrays
    std::uint32_t first_child = 0;  // index of the members, options, or of the one element
    std::uint32_t child_count = 0;
    // Of a variant: into DecodePlan::choices; or into label_choices, if its tag's enum has an index.
    std::uint32_t first_choice = 0;
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

// A label of a variant's tag that chooses one of its options.
struct PlanLabelChoice {
    std::uint32_t label = 0;  // as EnumLabels has it
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
    std::vector<PlanLabelChoice> label_choices;  // of each variant in the order of the labels
    std::vector<std::shared_ptr<const EnumLabels>> tag_labels{nullptr};
    std::uint32_t slot_count = 1;
    PlanRoot packet_header;
    PlanRoot packet_context;
    PlanRoot event_header;
    PlanRoot event_context;
    std::vector<EventPlan> events;

    // Null if the id is not declared.
    [[nodiscard]] const EventPlan* find_event(std::uint64_t id) const {
        if (id < event_by_small_id.size() && event_by_small_id[id] != 0) return &events[event_by_small_id[id] - 1];
        const auto found = event_by_large_id.find(id);
        return found == event_by_large_id.end() ? nullptr : &events[found->second - 1];
    }

    // Numbers of events, from 1. Small ids are those that are not much larger than the number of events: so are those
    // of real tracers, and a table of them cannot be made huge. Ordered, not hashed: a trace chooses its ids.
    std::vector<std::uint32_t> event_by_small_id;
    std::map<std::uint64_t, std::uint32_t> event_by_large_id;
};

// Makes the plan of a stream class that may grow. Both classes must outlive it and stay where they are.
class DecodePlanner {
  public:
    DecodePlanner(const TraceClass& trace_class, const StreamClass& stream_class);
    ~DecodePlanner();
    DecodePlanner(const DecodePlanner&) = delete;
    DecodePlanner& operator=(const DecodePlanner&) = delete;

    // Plans what the stream class has got since the last call. An error stays.
    Result<void> grow(TraceIndex& index);
    // Stays where it is. Events are added to it by grow(), no other member changes its meaning.
    [[nodiscard]] const DecodePlan& plan() const;

  private:
    class Builder;

    std::unique_ptr<Builder> builder_;
    std::optional<Error> failure_;
};

// Of classes that do not grow.
Result<DecodePlan> make_decode_plan(const TraceClass& trace_class, const StreamClass& stream_class);

}  // namespace leat::ctf
