#include "viewer/stats/trace_statistics.hpp"

#include <algorithm>

#include "viewer/filter/value_path.hpp"

namespace leat::viewer {
namespace {

constexpr std::size_t kMaxProcesses = 100'000;
// Bytes of a name that is kept for each of them. The kernel's have 15.
constexpr std::size_t kLongestName = 256;

const ValuePath kVpid{"vpid"};
const ValuePath kProcname{"procname"};
const ValuePath kCpu{"cpu_id"};

}  // namespace

Result<void> TraceStatistics::add(const PacketView& packet, const ctf::EventPlace& place) {
    PlanState& state = state_of(packet);
    if (place.event >= state.names.size()) state.names.resize(packet.plan->events.size());
    Count*& name = state.names[place.event];
    if (name == nullptr) name = &by_name_[packet.plan->events[place.event].event_class->name];
    Count* const cpu = state.has_cpu ? LEAT_TRY(cpu_of(packet)) : nullptr;
    ctf::PacketDecoder& decoder = *LEAT_TRY(decoder_.enter(packet));
    LEAT_TRY(decoder.decode_contexts(place));
    Count* const process = state.has_process ? process_of(packet, decoder.record()) : nullptr;
    for (Count* const count : {&all_, name, cpu, process}) {
        if (count == nullptr) continue;
        ++count->events;
        count->bits += decoder.position() - place.begin;
    }
    if (packet.plan->clock == nullptr) return {};
    if (!span_ns_) span_ns_.emplace(place.time_ns, place.time_ns);
    span_ns_->first = std::min(span_ns_->first, place.time_ns);
    span_ns_->second = std::max(span_ns_->second, place.time_ns);
    return {};
}

TraceStatistics::PlanState& TraceStatistics::state_of(const PacketView& packet) {
    const auto [found, is_new] = plans_.try_emplace(packet.plan->number);
    if (!is_new) return found->second;
    const ctf::StreamClass& stream = *packet.plan->stream_class;
    const auto has = [&](const ValuePath& path) {
        return has_field(stream.event_context, path) ||
               std::ranges::any_of(stream.events, [&](const auto& event) { return has_field(event.context, path); });
    };
    found->second.has_process =
        has(kVpid) || has(kProcname) || ctf::environment_number(*packet.trace_class, "vpid") != nullptr;
    found->second.has_cpu = has_packet_field(*packet.trace_class, stream, kCpu);
    return found->second;
}

Result<TraceStatistics::Count*> TraceStatistics::cpu_of(const PacketView& packet) {
    Cpu& cpu = cpus_.of(packet.number);
    if (cpu.is_known) return cpu.count;
    const ctf::PacketDecoder& decoder = *LEAT_TRY(decoder_.enter(packet));
    const auto number = integer_of(find_value(decoder.packet_context(), kCpu));
    cpu = {true, number ? &by_cpu_[*number] : nullptr};
    return cpu.count;
}

TraceStatistics::Count* TraceStatistics::process_of(const PacketView& packet, const ctf::EventRecord& event) {
    std::optional<std::int64_t> vpid = integer_of(find_context(event, kVpid));
    const std::int64_t* const of_trace = ctf::environment_number(*packet.trace_class, "vpid");
    if (!vpid && of_trace != nullptr) vpid = *of_trace;
    std::string_view name;
    if (const ctf::FieldValue* const value = find_context(event, kProcname); value && value->is_text)
        name = {value->text, value->size};
    else if (const std::string* const text = ctf::environment_text(*packet.trace_class, "procname"))
        name = *text;
    name = name.substr(0, kLongestName);
    if (process_count_ == nullptr || process_.vpid != vpid || process_.name != name) {
        process_ = {vpid, std::string(name)};
        const bool is_one_more = by_process_.size() >= kMaxProcesses && !by_process_.contains(process_);
        process_count_ = &by_process_[is_one_more ? Process{.name = "(others)"} : process_];
    }
    return process_count_;
}

}  // namespace leat::viewer
