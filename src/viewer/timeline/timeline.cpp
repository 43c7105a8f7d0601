#include "viewer/timeline/timeline.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/pattern.hpp"
#include "viewer/filter/value_path.hpp"

namespace leat::viewer {
namespace {

// So many slices of one rule may be open at once. One more ends the oldest: its end may have been lost.
constexpr std::size_t kMaxOpenSlices = 10'000;
// Threads that are more share one track.
constexpr std::size_t kMaxTracks = 100'000;
// Bytes of a name that each track has of its own. The kernel's have 15.
constexpr std::size_t kLongestName = 256;
// Slices that are open within each other. One more ends all of them: their ends may have been lost.
constexpr std::size_t kMaxDepth = 1'000;
// Above those that Linux gives.
constexpr std::int64_t kFirstPidOfOurs = 1'000'000'000;

const ValuePath kVpidContext{"vpid"};
const ValuePath kVtidContext{"vtid"};
const ValuePath kPidContext{"pid"};
const ValuePath kTidContext{"tid"};
const ValuePath kNameContext{"procname"};
const ValuePath kCpuContext{"cpu_id"};

std::string_view text_of(const ctf::TraceClass& trace_class, std::string_view name) {
    const std::string* const text = ctf::environment_text(trace_class, name);
    return text == nullptr ? std::string_view() : *text;
}
std::string_view host_of(const ctf::TraceClass& trace_class) {
    return text_of(trace_class, "hostname").substr(0, kLongestName);
}

bool is_phase_in(const SliceRule& rule, Phase phase, const std::string& name) {
    return matches_pattern(phase == Phase::kBegin ? rule.from : rule.to, name);
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
    const Track& thread = thread_of(role, packet, event);
    bool is_slice = false;
    if (&thread == others_) {
        ++on_others_;
        writer_.event(thread, Phase::kInstant, place.time_ns, event.event_class->name, &event);
        return {};
    }
    for (const Role::Keyed& keyed : role.keyed) is_slice |= LEAT_TRY(add_keyed(keyed, thread, packet, place, event));
    for (const NamedPhase& nested : role.nested) is_slice |= add_nested(nested, thread, place.time_ns, event);
    if (!is_slice) writer_.event(thread, Phase::kInstant, place.time_ns, event.event_class->name, &event);
    return {};
}

// An end ends what has begun inside of its slice, too, of which it says nothing else. False: it has not begun.
bool Timeline::add_nested(const NamedPhase& role, const Track& thread, std::int64_t time_ns,
                          const ctf::EventRecord& event) {
    std::vector<std::string_view>& open = open_[thread.id];
    if (role.phase == Phase::kBegin) {
        if (open.size() >= kMaxDepth) {
            given_up_ += open.size();
            for (; !open.empty(); open.pop_back()) writer_.event(thread, Phase::kEnd, time_ns, open.back(), nullptr);
        }
        open.push_back(role.title);
        if (thread.kind == Track::Kind::kCpu && thread.process != 0) ++without_thread_;
        writer_.event(thread, Phase::kBegin, time_ns, role.title, &event);
        return true;
    }
    const auto begun = std::find(open.rbegin(), open.rend(), role.title);
    if (begun == open.rend()) return false;
    for (auto inside = begun - open.rbegin(); inside >= 0; --inside) {
        writer_.event(thread, Phase::kEnd, time_ns, open.back(), inside == 0 ? &event : nullptr);
        open.pop_back();
    }
    return true;
}

const Timeline::Role& Timeline::role_of(const PacketView& packet, const ctf::EventPlace& place) {
    auto& roles = roles_[packet.plan->number];
    if (roles.size() < packet.plan->events.size()) roles.resize(packet.plan->events.size());
    Role& role = roles[place.event];
    if (!role.is_known) role = make_role(packet, *packet.plan->events[place.event].event_class);
    return role;
}

// Each rule may have something open that an event ends. What begins is one slice.
void Timeline::add_nested_roles(const PacketView& packet, const std::string& name, Role& role) {
    for (const SliceRule& rule : nested_)
        if (is_phase_in(rule, Phase::kEnd, name) &&
            std::ranges::find(role.nested, rule.title, &NamedPhase::title) == role.nested.end())
            role.nested.push_back({Phase::kEnd, rule.title});
    const auto begun =
        std::ranges::find_if(nested_, [&](const SliceRule& rule) { return is_phase_in(rule, Phase::kBegin, name); });
    if (begun != nested_.end()) role.nested.push_back({Phase::kBegin, begun->title});
    const NamedPhase named = phase_of_name(name);
    if (!role.keyed.empty() || !role.nested.empty() || named.phase == Phase::kInstant) return;
    if (named.phase == Phase::kEnd || is_ended(*packet.trace_class, named.title)) role.nested.push_back(named);
}

// By an event of the trace. What nothing ends is no slice: everything that follows it would lie in it.
bool Timeline::is_ended(const ctf::TraceClass& trace_class, std::string_view title) {
    const auto [known, is_new] = ended_.try_emplace(&trace_class);
    if (!is_new) return known->second.contains(title);
    for (const ctf::StreamClass& stream : trace_class.streams)
        for (const ctf::EventClass& event_class : stream.events)
            if (const NamedPhase named = phase_of_name(event_class.name); named.phase == Phase::kEnd)
                known->second.insert(named.title);
    return known->second.contains(title);
}

Timeline::Role Timeline::make_role(const PacketView& packet, const ctf::EventClass& event_class) {
    const std::string& name = event_class.name;
    Role role{.is_known = true};
    for (const Phase wanted : {Phase::kEnd, Phase::kBegin})
        for (std::size_t i = 0; i < keyed_.size(); ++i)
            if (is_phase_in(keyed_[i].rule, wanted, name)) role.keyed.push_back({i, wanted});
    add_nested_roles(packet, name, role);
    const ctf::StreamClass& stream = *packet.plan->stream_class;
    const auto has = [&](const ValuePath& path) {
        return has_field(stream.event_context, path) || has_field(event_class.context, path);
    };
    role.pid = has(kVpidContext) ? &kVpidContext : has(kPidContext) ? &kPidContext : nullptr;
    role.tid = has(kVtidContext) ? &kVtidContext : has(kTidContext) ? &kTidContext : nullptr;
    role.has_name = has(kNameContext);
    role.has_cpu = has(kCpuContext);
    role.has_packet_cpu = has_packet_field(*packet.trace_class, stream, kCpuContext);
    return role;
}

std::optional<std::int64_t> Timeline::cpu_of(const Role& role, const PacketView& packet,
                                             const ctf::EventRecord& event) {
    if (role.has_cpu) return integer_of(find_context(event, kCpuContext));
    if (!role.has_packet_cpu) return std::nullopt;
    PacketCpu& cpu = cpus_[packet.stream];
    if (cpu.packet != packet.number) cpu = {packet.number, integer_of(find_value(event.packet_context, kCpuContext))};
    return cpu.cpu;
}

// What tells processes of one number apart: their host and, in a container, where a process has another number than for
// the daemon, that number, which a trace of one process has.
std::size_t Timeline::place_of(const ctf::TraceClass& trace_class) {
    const auto [known, is_new] = places_.try_emplace(&trace_class);
    if (!is_new) return known->second;
    if (!first_host_) first_host_ = host_of(trace_class);
    std::string place(text_of(trace_class, "hostname"));
    const auto* const vpid = ctf::environment_number(trace_class, "vpid");
    const auto* const pid = ctf::environment_number(trace_class, "tracer_buffering_id");
    const bool is_of_process = text_of(trace_class, "tracer_buffering_scheme") == "pid";
    if (is_of_process && vpid != nullptr && pid != nullptr && *pid != *vpid) place += fmt::format("/{}", *pid);
    known->second = place_numbers_.try_emplace(std::move(place), place_numbers_.size()).first->second;
    return known->second;
}

Timeline::ThreadKey Timeline::key_of_thread(const Role& role, const PacketView& packet, const ctf::EventRecord& event) {
    ThreadKey key{.place = place_of(*packet.trace_class)};
    if (role.pid != nullptr) key.pid = integer_of(find_context(event, *role.pid));
    if (const auto* const vpid = ctf::environment_number(*packet.trace_class, "vpid"); !key.pid && vpid != nullptr)
        key.pid = *vpid;
    if (role.tid != nullptr) key.tid = integer_of(find_context(event, *role.tid));
    if (!key.pid) key.pid = key.tid;
    // A kernel's idle threads are all 0: one for each CPU.
    if (key.pid == 0 && key.tid.value_or(0) == 0) key.pid = key.tid = std::nullopt;
    if (key.tid) return key;
    key.cpu = cpu_of(role, packet, event);
    if (!key.cpu) key.stream = packet.stream;
    return key;
}

Track& Timeline::thread_of(const Role& role, const PacketView& packet, const ctf::EventRecord& event) {
    const ThreadKey key = key_of_thread(role, packet, event);
    if (const auto known = threads_.find(key); known != threads_.end()) return *known->second;
    if (tracks_.size() >= kMaxTracks) return others();
    std::string_view name = text_of(*packet.trace_class, "procname");
    if (const ctf::FieldValue* const value = role.has_name ? find_context(event, kNameContext) : nullptr;
        value != nullptr && value->is_text)
        name = {value->text, value->size};
    name = name.substr(0, kLongestName);
    Track& made = key.tid ? make_thread(key, name, packet) : make_cpu(key, name, packet);
    threads_.emplace(key, &made);
    return made;
}

Track& Timeline::make_thread(const ThreadKey& key, std::string_view name, const PacketView& packet) {
    const Track& process = process_of(key, name, *packet.trace_class);
    return make_track({.process = process.id, .pid = process.pid, .tid = *key.tid, .name = std::string(name)});
}

Track& Timeline::make_cpu(const ThreadKey& key, std::string_view name, const PacketView& packet) {
    const std::string& path = packet.stream->name;
    Track track{.kind = Track::Kind::kCpu,
                .name = key.cpu ? fmt::format("CPU {}", *key.cpu) : path.substr(path.rfind('/') + 1, kLongestName)};
    if (key.pid) {
        const Track& process = process_of(key, name, *packet.trace_class);
        track.process = process.id;
        track.pid = process.pid;
    } else if (const auto host = host_of(*packet.trace_class); !host.empty() && host != first_host_) {
        track.name += fmt::format(" ({})", host);
    }
    return make_track(std::move(track));
}

Track& Timeline::process_of(const ThreadKey& key, std::string_view name, const ctf::TraceClass& trace_class) {
    Track*& known = processes_[{.place = key.place, .pid = key.pid}];
    if (known != nullptr) return *known;
    // Another host's or container's, whose threads other viewers could not tell from those of this one.
    const bool is_taken = !pids_.insert(*key.pid).second;
    const std::int64_t pid = is_taken ? kFirstPidOfOurs + static_cast<std::int64_t>(tracks_.size()) : *key.pid;
    known = &make_track(
        {.kind = Track::Kind::kProcess,
         .pid = pid,
         .tid = pid,
         .name = is_taken ? fmt::format("{} ({}, {})", name, host_of(trace_class), *key.pid) : std::string(name)});
    return *known;
}

Track& Timeline::others() {
    if (others_ == nullptr) others_ = &make_track({.kind = Track::Kind::kCpu, .name = "others"});
    return *others_;
}

Track& Timeline::make_track(Track track) {
    track.id = tracks_.size() + 1;
    Track& made = *tracks_.emplace_back(std::make_unique<Track>(std::move(track)));
    writer_.track(made);
    return made;
}

// What begins again has not told its end. False: it is no slice, as it lacks the key, or the begin.
Result<bool> Timeline::add_keyed(const Role::Keyed& role, const Track& thread, const PacketView& packet,
                                 const ctf::EventPlace& place, const ctf::EventRecord& event) {
    KeyedRule& rule = keyed_[role.rule];
    const std::optional<std::string> value = key_of(LEAT_TRY(rule.key.value(packet, place)));
    if (!value) return false;
    // Addresses and descriptors of several processes are the same.
    std::string key = fmt::format("{}/{}/{}", place_of(*packet.trace_class), thread.process, *value);
    const auto open = rule.open.find(key);
    if (role.phase == Phase::kEnd) {
        if (open == rule.open.end()) return false;
        end_keyed(rule, open, place.time_ns, &event);
        return true;
    }
    if (open != rule.open.end()) {
        end_keyed(rule, open, place.time_ns, nullptr);
    } else if (rule.open.size() >= kMaxOpenSlices) {
        ++given_up_;
        end_keyed(rule, rule.open.find(rule.oldest.begin()->second), place.time_ns, nullptr);
    }
    Track& lane = lane_of(rule, thread.process);
    rule.oldest.emplace(++rule.begun, key);
    rule.open.emplace(std::move(key), KeyedRule::Open{&lane, rule.begun});
    writer_.event(lane, Phase::kBegin, place.time_ns, rule.rule.title, &event);
    return true;
}

void Timeline::end_keyed(KeyedRule& rule, KeyedRule::OpenSlices::iterator open, std::int64_t time_ns,
                         const ctf::EventRecord* event) {
    const auto [lane, number] = open->second;
    rule.oldest.erase(number);
    rule.open.erase(open);
    rule.free[lane->process].push_back(lane);
    writer_.event(*lane, Phase::kEnd, time_ns, rule.rule.title, event);
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
