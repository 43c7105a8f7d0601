#include "viewer/timeline/timeline.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/pattern.hpp"
#include "viewer/filter/value_path.hpp"

namespace leat::viewer {
namespace {

// So many slices of one rule may be open at once. What would be one more is an instant.
constexpr std::size_t kMaxOpen = 10'000;
// Threads that are more share one track.
constexpr std::size_t kMaxTracks = 100'000;
constexpr std::int64_t kOthers = -1;

const ValuePath kVpidContext{"vpid"};
const ValuePath kVtidContext{"vtid"};
const ValuePath kPidContext{"pid"};
const ValuePath kTidContext{"tid"};
const ValuePath kNameContext{"procname"};
const ValuePath kCpuContext{"cpu_id"};

const ctf::FieldValue* context(const ctf::EventRecord& event, const ValuePath& path) {
    for (const auto scope : {event.event_context, event.context, event.packet_context})
        if (const ctf::FieldValue* const value = find_value(scope, path)) return value;
    return nullptr;
}

std::optional<std::int64_t> number(const ctf::EventRecord& event, const ValuePath& path) {
    const ctf::FieldValue* const value = context(event, path);
    if (value == nullptr || value->is_text || value->field_class->as<ctf::IntegerClass>() == nullptr)
        return std::nullopt;
    return static_cast<std::int64_t>(value->number);
}

std::string_view text(const ctf::EventRecord& event, const ValuePath& path) {
    const ctf::FieldValue* const value = context(event, path);
    return value != nullptr && value->is_text ? std::string_view(value->text, value->size) : std::string_view();
}

}  // namespace

Timeline::Timeline(std::vector<SliceRule> rules, TimelineWriter& writer) : writer_(writer) {
    for (SliceRule& rule : rules) {
        if (!rule.key) {
            nested_.push_back(std::move(rule));
            continue;
        }
        EventExpression key(*rule.key);
        keyed_.push_back({.rule = std::move(rule), .key = std::move(key)});
    }
}

Result<void> Timeline::add(const PacketView& packet, const ctf::EventPlace& place) {
    if (packet.plan->clock == nullptr) {
        ++without_time_;
        return {};
    }
    ++events_;
    const Role& role = role_of(packet, place);
    const ctf::EventRecord& event = *LEAT_TRY(decoder_.decode(packet, place));
    const Track& thread = thread_of(packet, event);
    if (role.kind == Role::Kind::kKeyed && LEAT_TRY(add_keyed(role, thread, packet, place, event))) return {};
    Phase phase = role.kind == Role::Kind::kKeyed ? Phase::kInstant : role.phase;
    std::uint64_t& depth = depths_[thread.id];
    if (phase == Phase::kEnd && depth == 0) phase = Phase::kInstant;  // it began before the trace
    depth += phase == Phase::kBegin ? 1 : 0;
    depth -= phase == Phase::kEnd ? 1 : 0;
    const std::string_view title = phase == Phase::kInstant ? event.event_class->name : role.title;
    writer_.event(thread, phase, place.time_ns, title, event);
    return {};
}

const Timeline::Role& Timeline::role_of(const PacketView& packet, const ctf::EventPlace& place) {
    auto& roles = roles_[packet.plan->number];
    if (roles.size() < packet.plan->events.size()) roles.resize(packet.plan->events.size());
    Role& role = roles[place.event];
    if (role.kind != Role::Kind::kUnknown) return role;
    const std::string& name = packet.plan->events[place.event].event_class->name;
    const auto phase_in = [&](const SliceRule& rule) {
        return matches_pattern(rule.from, name) ? Phase::kBegin
               : matches_pattern(rule.to, name) ? Phase::kEnd
                                                : Phase::kInstant;
    };
    for (std::size_t i = 0; i < keyed_.size(); ++i)
        if (const Phase phase = phase_in(keyed_[i].rule); phase != Phase::kInstant)
            return role = {Role::Kind::kKeyed, phase, i, keyed_[i].rule.title};
    for (const SliceRule& rule : nested_)
        if (const Phase phase = phase_in(rule); phase != Phase::kInstant)
            return role = {Role::Kind::kNested, phase, 0, rule.title};
    const NamedPhase named = phase_of_name(name);
    return role = {Role::Kind::kByName, named.phase, 0, named.title};
}

Track& Timeline::thread_of(const PacketView& packet, const ctf::EventRecord& event) {
    ThreadKey key;
    if (const std::string* const host = ctf::environment_text(*packet.trace_class, "hostname")) key.host = *host;
    key.pid = number(event, kVpidContext);
    if (!key.pid) key.pid = number(event, kPidContext);
    if (const auto* const vpid = ctf::environment_number(*packet.trace_class, "vpid"); !key.pid && vpid != nullptr)
        key.pid = *vpid;
    std::optional<std::int64_t> tid = number(event, kVtidContext);
    if (!tid) tid = number(event, kTidContext);
    const std::int64_t cpu = number(event, kCpuContext).value_or(0);
    key.tid = key.pid ? tid.value_or(*key.pid) : cpu;
    const bool is_one_more = tracks_.size() >= kMaxTracks && !threads_.contains(key);
    Track*& known = threads_[is_one_more ? ThreadKey{.tid = kOthers} : key];
    if (known != nullptr) return *known;
    if (is_one_more) {
        known = &make_track({.kind = Track::Kind::kCpu, .name = "others"});
        return *known;
    }
    std::string_view name = text(event, kNameContext);
    if (const std::string* const of_trace = ctf::environment_text(*packet.trace_class, "procname");
        name.empty() && of_trace != nullptr)
        name = *of_trace;
    if (!key.pid) {
        known = &make_track({.kind = Track::Kind::kCpu, .name = fmt::format("CPU {}", cpu)});
        return *known;
    }
    const std::uint64_t process = process_of(key, name).id;
    known = &make_track({.process = process, .pid = *key.pid, .tid = key.tid, .name = std::string(name)});
    return *known;
}

Track& Timeline::process_of(const ThreadKey& key, std::string_view name) {
    Track*& known = processes_[{key.host, key.pid, 0}];
    if (known == nullptr)
        known =
            &make_track({.kind = Track::Kind::kProcess, .pid = *key.pid, .tid = *key.pid, .name = std::string(name)});
    return *known;
}

Track& Timeline::make_track(Track track) {
    track.id = tracks_.size() + 1;
    Track& made = *tracks_.emplace_back(std::make_unique<Track>(std::move(track)));
    writer_.track(made);
    return made;
}

// False: it is no slice, as it lacks the key, or the other end.
Result<bool> Timeline::add_keyed(const Role& role, const Track& thread, const PacketView& packet,
                                 const ctf::EventPlace& place, const ctf::EventRecord& event) {
    KeyedRule& rule = keyed_[role.rule];
    std::optional<std::string> key = key_of(LEAT_TRY(rule.key.value(packet, place)));
    if (!key) return false;
    const auto open = rule.open.find(*key);
    if (role.phase == Phase::kEnd) {
        if (open == rule.open.end()) return false;
        Track* const lane = open->second;
        rule.open.erase(open);
        rule.free[lane->process].push_back(lane);
        writer_.event(*lane, Phase::kEnd, place.time_ns, role.title, event);
        return true;
    }
    if (open != rule.open.end() || rule.open.size() >= kMaxOpen) return false;
    Track& lane = lane_of(rule, thread.process);
    rule.open.emplace(*std::move(key), &lane);
    writer_.event(lane, Phase::kBegin, place.time_ns, role.title, event);
    return true;
}

Track& Timeline::lane_of(KeyedRule& rule, std::uint64_t process) {
    auto& free = rule.free[process];
    if (free.empty()) {
        const std::int64_t pid = process == 0 ? 0 : tracks_[process - 1]->pid;
        return make_track({.kind = Track::Kind::kLane, .process = process, .pid = pid, .name = rule.rule.title});
    }
    Track* const lane = free.back();
    free.pop_back();
    return *lane;
}

}  // namespace leat::viewer
