#include "ctf/decode/trace_plans.hpp"

#include <optional>
#include <utility>
#include <vector>

#include "ctf/decode/field_decoder.hpp"

namespace leat::ctf {
namespace {

const StreamClass kNoStream{};

// The packet header is part of every plan, so 100,000 streams with a large header would take too much memory.
constexpr std::size_t kMaxHeaderNodesOfAllPlans = 1U << 20U;

}  // namespace

Result<TracePlans> TracePlans::make(const TraceClass& trace_class) {
    return TracePlans(trace_class, LEAT_TRY(make_decode_plan(trace_class, kNoStream)));
}

Result<const DecodePlan*> TracePlans::plan_for(UntrustedBytes packet) {
    const StreamClass* const stream_class = LEAT_TRY(stream_class_of(packet));
    DecodePlanner* const planner = LEAT_TRY(planner_of(*stream_class));
    LEAT_TRY(grow(*planner));
    return &planner->plan();
}

Result<void> TracePlans::grow(const DecodePlan& plan) { return grow(*LEAT_TRY(planner_of(*plan.stream_class))); }

Result<void> TracePlans::grow(DecodePlanner& planner) {
    const std::size_t planned = planner.plan().events.size();
    auto grown = planner.grow(index_);
    events_planned_ += planner.plan().events.size() - planned;
    return grown;
}

Result<DecodePlanner*> TracePlans::planner_of(const StreamClass& stream_class) {
    if (const auto known = planners_.find(stream_class.id); known != planners_.end()) return known->second.get();
    if (planners_.size() * header_plan_->nodes.size() >= kMaxHeaderNodesOfAllPlans)
        return refused("{} streams with a packet header of {} fields are too many", planners_.size() + 1,
                       header_plan_->nodes.size());
    auto planner = std::make_unique<DecodePlanner>(*trace_class_, stream_class);
    return planners_.emplace(stream_class.id, std::move(planner)).first->second.get();
}

Result<const StreamClass*> TracePlans::stream_class_of(UntrustedBytes packet) {
    FieldDecoder decoder(*header_plan_);
    std::vector<FieldValue> values;
    decoder.start_packet(packet, packet.size() * 8);
    LEAT_TRY(decoder.decode(header_plan_->packet_header, values, kMaxHeaderValues));
    std::optional<std::uint64_t> id = decoder.role(FieldRole::kStreamId);
    if (!id && trace_class_->has_roles && trace_class_->streams.size() != 1) id = 0;
    if (!id && trace_class_->streams.size() != 1)
        return corrupt("it does not say which of the trace's streams it belongs to");
    if (!id) return &trace_class_->streams.front();
    const StreamClass* const stream = index_.stream(*id);
    if (stream == nullptr) return corrupt("stream {} is not declared", *id);
    return stream;
}

}  // namespace leat::ctf
