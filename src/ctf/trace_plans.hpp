#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "base/byte_cursor.hpp"
#include "base/result.hpp"
#include "ctf/decode_plan.hpp"
#include "ctf/trace_class.hpp"

namespace leat::ctf {

// The decode plans of a trace, one for each stream class, made when the first packet of it appears.
class TracePlans {
  public:
    // The trace class must outlive the plans and stay where it is.
    static Result<TracePlans> make(const TraceClass& trace_class);

    // The plan for the packet that begins these bytes; it lives as long as this object.
    Result<const DecodePlan*> plan_for(UntrustedBytes packet);

  private:
    TracePlans(const TraceClass& trace_class, DecodePlan header_plan)
        : trace_class_(&trace_class), header_plan_(std::make_unique<DecodePlan>(std::move(header_plan))) {}

    Result<const StreamClass*> stream_class_of(UntrustedBytes packet) const;

    const TraceClass* trace_class_;
    std::unique_ptr<DecodePlan> header_plan_;                               // knows the packet header only
    std::unordered_map<std::uint64_t, std::unique_ptr<DecodePlan>> plans_;  // by stream id
};

}  // namespace leat::ctf
