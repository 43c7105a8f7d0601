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
#include "ctf/decode/event_layout.hpp"
#include "ctf/decode/header_form.hpp"
#include "ctf/decode/plan_node.hpp"
#include "ctf/model/trace_class.hpp"

namespace leat::ctf {

struct EventPlan {
    const EventClass* event_class = nullptr;
    PlanRoot context{};
    PlanRoot fields{};
    EventLayout layout{};  // of the context and the fields
};

struct DecodePlan {
    std::uint64_t number = 0;  // no other plan of this program has it
    const StreamClass* stream_class = nullptr;
    const ClockClass* clock = nullptr;  // of the stream's timestamps; null: it has none
    unsigned end_size = 64;             // bits of timestamp_end, if it is one of that clock
    std::vector<PlanNode> nodes;
    std::vector<VariantChoice> choices;
    std::vector<PlanLabelChoice> label_choices;  // for each variant, in the order of the labels
    std::vector<std::shared_ptr<const EnumLabels>> tag_labels{nullptr};
    std::uint32_t slot_count = 1;
    bool has_roles = false;  // of CTF 2: the clock begins at 0 in each packet, and ids that nobody states are 0
    PlanRoot packet_header;
    PlanRoot packet_context;
    PlanRoot event_header;
    PlanRoot event_context;
    HeaderForm header_form;      // of the event header, for most events
    EventLayout context_layout;  // of the event context
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
    // Of small ids of events with a plain layout, what a loop over them needs. Number 0: not one of those. 32
    // bytes: then an id is only shifted to find its place.
    struct alignas(32) PlainEvent {
        std::uint32_t number = 0;
        std::uint32_t count = 0;  // of fields
        PlainRun first{};
        // Bits from the begin of the header to the end of `first`; 0: that is to be found out anew for each event.
        std::uint32_t distance = 0;
        std::uint32_t first_behind_string = 0;  // into runs_behind_strings
        std::uint32_t string_count = 0;
    };
    std::vector<PlainEvent> plain_by_small_id;
    std::vector<PlainRun> runs_behind_strings;
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
