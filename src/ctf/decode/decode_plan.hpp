// The classes of a stream, arranged for decoding. All fields lie in one flat array, the paths of lengths and tags are
// resolved to slots, and fields that the reader uses itself are marked. A plan is built once for each stream class and
// grows with its events. Everything that can be wrong with a trace class is found here, so decoding looks at bytes
// only.
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

// How the reader itself uses a field.
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
    bool is_shown = true;       // people see it as part of the event record
    std::uint8_t size = 0;      // bits of integers and floats
    std::uint32_t alignment = 1;
    std::uint32_t slot = 0;         // where its value is kept for lengths and tags; 0: it is not kept
    std::uint32_t length_slot = 0;  // of sequences and variants; 0: the length is fixed
    std::uint32_t tag_labels = 0;   // of a variant, into DecodePlan::tag_labels; 0: the tag's enum has no index
    std::uint64_t length = 0;       // of arrays
    std::uint32_t first_child = 0;  // index of the first member or option, or of the only element
    std::uint32_t child_count = 0;
    // For a variant: index into DecodePlan::choices, or into label_choices if the enum of its tag has an index.
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
    std::uint32_t label = 0;  // the number that EnumLabels gives it
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
    const ClockClass* clock = nullptr;  // of the stream's timestamps; null: it has none
    std::vector<PlanNode> nodes;
    std::vector<PlanChoice> choices;
    std::vector<PlanLabelChoice> label_choices;  // for each variant, in the order of the labels
    std::vector<std::shared_ptr<const EnumLabels>> tag_labels{nullptr};
    std::uint32_t slot_count = 1;
    PlanRoot packet_header;
    PlanRoot packet_context;
    PlanRoot event_header;
    PlanRoot event_context;
    std::vector<EventPlan> events;

    // Returns null if the id is not declared.
    [[nodiscard]] const EventPlan* find_event(std::uint64_t id) const {
        if (id < event_by_small_id.size() && event_by_small_id[id] != 0) return &events[event_by_small_id[id] - 1];
        const auto found = event_by_large_id.find(id);
        return found == event_by_large_id.end() ? nullptr : &events[found->second - 1];
    }

    // The numbers of events count from 1. Small ids are those not much larger than the number of events, which includes
    // all ids of real tracers. So a trace cannot make this table huge. The other ids are in an ordered map, not a
    // hashed one, because a trace chooses its ids.
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

    // Plans what was added to the stream class since the last call. After an error, every later call fails too.
    Result<void> grow(TraceIndex& index);
    // The plan keeps its address. grow() adds events to it and does not change what the other members mean.
    [[nodiscard]] const DecodePlan& plan() const;

  private:
    class Builder;

    std::unique_ptr<Builder> builder_;
    std::optional<Error> failure_;
};

// Makes the plan of classes that do not grow.
Result<DecodePlan> make_decode_plan(const TraceClass& trace_class, const StreamClass& stream_class);

}  // namespace leat::ctf
