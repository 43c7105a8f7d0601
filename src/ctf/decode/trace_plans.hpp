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

// The decode plans of a trace, one for each stream class, made when the first packet of it appears. The trace class may
// grow: a plan gets the events that have come to its stream class with the next packet, and keeps what it has.
class TracePlans {
  public:
    // The trace class must outlive the plans and stay where it is. Its packet header is read here: it must be there.
    static Result<TracePlans> make(const TraceClass& trace_class);

    // The plan for the packet that begins these bytes; it lives as long as this object.
    Result<const DecodePlan*> plan_for(UntrustedBytes packet);

    // How much work it was.
    [[nodiscard]] std::size_t events_planned() const { return events_planned_; }

  private:
    TracePlans(const TraceClass& trace_class, DecodePlan header_plan)
        : trace_class_(&trace_class),
          index_(trace_class),
          header_plan_(std::make_unique<DecodePlan>(std::move(header_plan))) {}

    Result<const StreamClass*> stream_class_of(UntrustedBytes packet);
    Result<DecodePlanner*> planner_of(const StreamClass& stream_class);

    const TraceClass* trace_class_;
    TraceIndex index_;
    std::unique_ptr<DecodePlan> header_plan_;                           // knows the packet header only
    std::map<std::uint64_t, std::unique_ptr<DecodePlanner>> planners_;  // by stream id
    std::size_t events_planned_ = 0;
};

}  // namespace leat::ctf
