#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "base/byte_cursor.hpp"
#include "base/result.hpp"
#include "ctf/decode/decode_plan.hpp"
#include "ctf/model/trace_class.hpp"

namespace leat::ctf {

// The decode plans of a trace. There is one for each stream class, made when the first packet of that class appears.
// The trace class may grow: before the next packet of a stream class, its plan gets the new events and keeps the old
// ones.
class TracePlans {
  public:
    // The trace class must outlive the plans and keep its address. Its packet header must be complete: it is read here.
    static Result<TracePlans> make(const TraceClass& trace_class);

    // The plan for the packet that begins these bytes; it lives as long as this object.
    Result<const DecodePlan*> plan_for(UntrustedBytes packet);
    // For a packet whose plan is known: gives the plan the events that have come, as plan_for() does.
    Result<void> grow(const DecodePlan& plan);

    // The number of events planned so far, a measure of the work.
    [[nodiscard]] std::size_t events_planned() const { return events_planned_; }

  private:
    TracePlans(const TraceClass& trace_class, DecodePlan header_plan)
        : trace_class_(&trace_class),
          index_(trace_class),
          header_plan_(std::make_unique<DecodePlan>(std::move(header_plan))) {}

    Result<const StreamClass*> stream_class_of(UntrustedBytes packet);
    Result<void> grow(DecodePlanner& planner);
    Result<DecodePlanner*> planner_of(const StreamClass& stream_class);

    const TraceClass* trace_class_;
    TraceIndex index_;
    std::unique_ptr<DecodePlan> header_plan_;                           // plans the packet header only
    std::map<std::uint64_t, std::unique_ptr<DecodePlanner>> planners_;  // by stream id
    std::size_t events_planned_ = 0;
};

}  // namespace leat::ctf
