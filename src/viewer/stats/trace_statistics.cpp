#include "viewer/stats/trace_statistics.hpp"

#include <algorithm>

#include "viewer/filter/value_path.hpp"

namespace leat::viewer {
namespace {

const ValuePath kVpid{"vpid"};
const ValuePath kProcname{"procname"};
const ValuePath kCpu{"cpu_id"};

std::optional<std::int64_t> integer_of(const ctf::FieldValue* value) {
    if (value == nullptr || value->is_text || value->field_class->as<ctf::IntegerClass>() == nullptr)
        return std::nullopt;
    return static_cast<std::int64_t>(value->number);
}

}  // namespace

Result<void> TraceStatistics::add(const PacketView& packet, const ctf::EventPlace& place) {
    PlanState& state = state_of(packet);
    if (state.packet != packet.number) LEAT_TRY(enter(state, packet));
    if (place.event >= state.names.size()) state.names.resize(packet.plan->events.size());
    Count*& name = state.names[place.event];
    if (name == nullptr) name = &by_name_[packet.plan->events[place.event].event_class->name];
    Count* const process = state.has_process ? LEAT_TRY(process_of(packet, place)) : nullptr;

    Latest& latest = streams_[packet.stream];
    add_bytes(latest, latest.packet == packet.number ? place.begin : latest.content_bits);
    latest = {packet.number, place.begin, packet.content_bits, {&all_, name, state.cpu, process}};
    for (Count* const count : latest.counts)
        if (count != nullptr) ++count->events;

    if (packet.plan->clock == nullptr) return {};
    if (!span_ns_) span_ns_.emplace(place.time_ns, place.time_ns);
    span_ns_->first = std::min(span_ns_->first, place.time_ns);
    span_ns_->second = std::max(span_ns_->second, place.time_ns);
    return {};
}

void TraceStatistics::add_bytes(const Latest& latest, std::uint64_t end) {
    for (Count* const count : latest.counts)
        if (count != nullptr) count->bytes += (end - latest.begin) / 8;
}

void TraceStatistics::finish() {
    for (const auto& [stream, latest] : streams_) add_bytes(latest, latest.content_bits);
    streams_.clear();
}

TraceStatistics::PlanState& TraceStatistics::state_of(const PacketView& packet) {
    const auto [found, is_new] = plans_.try_emplace(packet.plan->number);
    if (!is_new) return found->second;
    const ctf::StreamClass& stream = *packet.plan->stream_class;
    found->second.has_process = has_field(stream.event_context, kVpid) || has_field(stream.event_context, kProcname) ||
                                ctf::environment_number(*packet.trace_class, "vpid") != nullptr;
    found->second.has_cpu = has_field(stream.packet_context, kCpu);
    return found->second;
}

Result<void> TraceStatistics::enter(PlanState& state, const PacketView& packet) {
    state.packet = packet.number;
    state.cpu = nullptr;
    if (!state.has_cpu) return {};
    const ctf::PacketDecoder& decoder = *LEAT_TRY(decoder_.enter(packet));
    if (const auto cpu = integer_of(find_value(decoder.packet_context(), kCpu))) state.cpu = &by_cpu_[*cpu];
    return {};
}

Result<TraceStatistics::Count*> TraceStatistics::process_of(const PacketView& packet, const ctf::EventPlace& place) {
    const ctf::EventRecord& event = *LEAT_TRY(decoder_.decode(packet, place));
    std::optional<std::int64_t> vpid = integer_of(find_value(event.event_context, kVpid));
    const std::int64_t* const of_trace = ctf::environment_number(*packet.trace_class, "vpid");
    if (!vpid && of_trace != nullptr) vpid = *of_trace;
    std::string_view name;
    if (const ctf::FieldValue* const value = find_value(event.event_context, kProcname); value && value->is_text)
        name = {value->text, value->size};
    else if (const std::string* const text = ctf::environment_text(*packet.trace_class, "procname"))
        name = *text;
    if (process_count_ == nullptr || process_.vpid != vpid || process_.name != name) {
        process_ = {vpid, std::string(name)};
        process_count_ = &by_process_[process_];
    }
    return process_count_;
}

void TraceStatistics::add_loss(const Message& message) {
    if (!message.loss.count)
        ++lost_.unknown;
    else if (message.kind == Message::Kind::kDiscardedEvents)
        lost_.events += *message.loss.count;
    else
        lost_.packets += *message.loss.count;
}

}  // namespace leat::viewer
