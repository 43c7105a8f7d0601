#include "ctf/trace_plans.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "ctf/field_decoder.hpp"

namespace leat::ctf {
namespace {

const StreamClass kNoStream{};

}  // namespace

Result<TracePlans> TracePlans::make(const TraceClass& trace_class) {
    return TracePlans(trace_class, LEAT_TRY(make_decode_plan(trace_class, kNoStream)));
}

Result<const DecodePlan*> TracePlans::plan_for(UntrustedBytes packet) {
    const StreamClass* const stream_class = LEAT_TRY(stream_class_of(packet));
    if (const auto known = plans_.find(stream_class->id); known != plans_.end()) return known->second.get();
    auto plan = std::make_unique<DecodePlan>(LEAT_TRY(make_decode_plan(*trace_class_, *stream_class)));
    return plans_.emplace(stream_class->id, std::move(plan)).first->second.get();
}

Result<const StreamClass*> TracePlans::stream_class_of(UntrustedBytes packet) const {
    FieldDecoder decoder(*header_plan_);
    std::vector<FieldValue> values;
    decoder.start_packet(packet, packet.size() * 8);
    LEAT_TRY(decoder.decode(header_plan_->packet_header, values));
    const std::optional<std::uint64_t> id = decoder.role(FieldRole::kStreamId);
    if (!id && trace_class_->streams.size() != 1)
        return corrupt("it does not say which of the trace's streams it is of");
    if (!id) return trace_class_->streams.data();
    const auto stream = std::ranges::find(trace_class_->streams, *id, &StreamClass::id);
    if (stream == trace_class_->streams.end()) return corrupt("stream {} is not declared", *id);
    return &*stream;
}

}  // namespace leat::ctf
