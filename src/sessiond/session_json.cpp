#include "sessiond/session_json.hpp"

#include <algorithm>
#include <functional>
#include <set>

#include "base/printable_text.hpp"
#include "ctf/model/log_level.hpp"
#include "session/contexts.hpp"
#include "sessiond/session_figures.hpp"

namespace leat::sessiond {
namespace {

using nlohmann::json;
using session::Session;

// In place of a timeout.
constexpr std::int64_t kNoLimit = -1;

json level_name(const std::optional<int>& level) {
    if (!level) return nullptr;
    return ctf::kLogLevels.at(static_cast<std::size_t>(*level)).substr(ctf::kLogLevelPrefix.size());
}

json rule_json(const session::EventRule& rule) {
    return {{"pattern", rule.pattern},
            {"loglevel", rule.is_log_level_only ? json() : level_name(rule.log_level)},
            {"loglevel_only", rule.is_log_level_only ? level_name(rule.log_level) : json()},
            {"exclude", rule.exclusions},
            {"enabled", rule.is_enabled}};
}

std::string mode_name(const session::Channel& channel) {
    if (channel.overwrites) return "overwrite";
    if (channel.is_trigger) return "trigger";
    return channel.blocking_timeout_us == wire::kNoBlocking ? "discard" : "blocking";
}

}  // namespace

json channel_json(const session::Channel& channel, Session::Buffers buffers) {
    json rules = json::array();
    for (const session::EventRule& rule : channel.rules) rules.push_back(rule_json(rule));
    json described{{"name", channel.name},
                   {"enabled", channel.is_enabled},
                   {"ring_size", channel.ring_size},
                   {"buffers", buffers == Session::Buffers::kPid ? "pid" : "user"},
                   {"mode", mode_name(channel)},
                   {"header", session::header_name(channel.header)},
                   {"read_period_us", channel.read_period_us},
                   {"switch_period_us", channel.switch_period_us},
                   {"tracefile_size", channel.files.size},
                   {"tracefile_count", channel.files.count},
                   {"contexts", session::context_names(channel.contexts)},
                   {"rules", std::move(rules)}};
    if (channel.blocking_timeout_us == wire::kBlocksForever)
        described["blocking_timeout_us"] = kNoLimit;
    else if (channel.blocking_timeout_us != wire::kNoBlocking)
        described["blocking_timeout_us"] = channel.blocking_timeout_us;
    return described;
}

namespace {

// A timeout alone asks for blocking, as it does with LTTng; blocking alone has no limit.
void read_blocking(Members& members, session::Channel& channel) {
    const auto mode = members.text("mode");
    const auto timeout = members.number("blocking_timeout_us", kNoLimit, wire::kBlocksForever - 1);
    if (mode && mode != "discard" && mode != "blocking" && mode != "overwrite" && mode != "trigger")
        members.refuse("\"mode\" is discard, blocking or overwrite, not \"{}\"", printable(*mode));
    channel.overwrites = mode == "overwrite";
    channel.is_trigger = mode == "trigger";
    if (channel.overwrites && timeout.value_or(0) != 0)
        members.refuse("a channel that overwrites does not wait: no \"blocking_timeout_us\"");
    if (mode == "discard" && timeout.value_or(0) != 0)
        members.refuse("a channel that discards does not wait: no \"blocking_timeout_us\"");
    if (mode == "blocking" && timeout == 0) members.refuse("to wait for 0 us is to discard: that is another mode");
    if (timeout.value_or(mode == "blocking" ? kNoLimit : 0) == kNoLimit)
        channel.blocking_timeout_us = wire::kBlocksForever;
    else if (timeout)
        channel.blocking_timeout_us = static_cast<std::uint32_t>(*timeout);
}

std::uint32_t read_period(Members& members, const char* name) {
    const auto period = static_cast<std::uint64_t>(members.number(name, 0, INT64_MAX).value_or(0));
    if (!session::is_valid_period(period))
        members.refuse("\"{}\" is from 1 ms to 1 minute, or 0 for the default", name);
    return static_cast<std::uint32_t>(period);
}

trace::FileLimits read_file_limits(Members& members) {
    constexpr auto kSmallest = static_cast<std::int64_t>(trace::FileLimits::kSmallestSize);
    const std::int64_t size = members.number("tracefile_size", 0, INT64_MAX).value_or(0);
    const std::int64_t count = members.number("tracefile_count", 0, INT64_MAX).value_or(0);
    if (size != 0 && size < kSmallest) members.refuse("\"tracefile_size\" is at least {} bytes", kSmallest);
    if (count != 0 && size == 0)
        members.refuse("\"tracefile_count\" files of which size: give \"tracefile_size\", too");
    return {.size = static_cast<std::uint64_t>(size), .count = static_cast<std::uint64_t>(count)};
}

// Those that there are.
json limits_json(const session::Limits& limits) {
    json described = json::object();
    if (limits.duration_us != 0) described["duration_us"] = limits.duration_us;
    if (limits.max_size != 0) described["max_size"] = limits.max_size;
    return described;
}

const char* state_name(const DaemonSession& session) {
    if (session.session.is_active()) return "active";
    return session.stopped_by == session::StoppedBy::kNobody ? "inactive" : "stopped";
}

template <class Id>
json tracked_json(const std::optional<std::set<Id>>& ids) {
    return ids ? json(*ids) : json("all");
}

// {"vpid": [1, 2]}, or "all".
template <class Id>
void read_ids(Members& members, const char* name, std::optional<std::set<Id>>& ids) {
    const json* const value = members.any(name);
    if (value == nullptr || *value == "all") return;
    const auto is_id = [](const json& element) {
        return element.is_number_unsigned() && element <= session::kMostId<Id>;
    };
    if (value->is_array() && std::ranges::all_of(*value, is_id))
        ids = value->get<std::set<Id>>();
    else
        members.refuse("\"{}\" is neither \"all\" nor a list of numbers", name);
}

Result<session::Channel> channel_of_definition(const json& described) {
    Members members(described, "a channel of the definition");
    session::Channel channel{.name = members.needed_text("name"), .rules = {}};
    channel.is_enabled = members.truth("enabled").value_or(true);
    LEAT_TRY(read_channel(members, channel));
    channel.contexts = LEAT_TRY(contexts_of(members.texts("contexts")));
    const auto rules = members.objects("rules");
    (void)members.text("buffers");  // of the session: see buffers_of_definition()
    LEAT_TRY(members.check());
    LEAT_TRY(check_name(channel.name, "channel"));
    for (const json& rule : rules) {
        Members of_rule(rule, "a rule of the definition");
        const bool is_enabled = of_rule.truth("enabled").value_or(true);
        channel.rules.push_back(LEAT_TRY(rule_of(of_rule)));
        channel.rules.back().is_enabled = is_enabled;
        LEAT_TRY(of_rule.check());
    }
    return channel;
}

// All channels have the same.
Result<Session::Buffers> buffers_of_definition(const std::vector<json>& channels) {
    std::set<std::string> schemes;
    for (const json& channel : channels)
        if (const auto found = channel.find("buffers"); found != channel.end() && found->is_string())
            schemes.insert(found->get<std::string>());
    if (schemes.empty() || schemes == std::set<std::string>{"user"}) return Session::Buffers::kUser;
    if (schemes == std::set<std::string>{"pid"}) return Session::Buffers::kPid;
    return bad_usage("\"buffers\" of all channels is user, or pid");
}

}  // namespace

json conflict_json(const Session::KnownConflict& known) {
    const auto program = [](const session::EventOrigin& origin) {
        return json{{"name", origin.program}, {"pid", origin.pid}, {"place", origin.place}};
    };
    return {{"event", known.conflict.event},
            {"channel", known.channel},
            {"programs", {program(known.conflict.known), program(known.conflict.refused)}},
            {"difference", known.conflict.difference},
            {"text", known.conflict.text()}};
}

json places_json(const Place& place) {
    json places{{"output", place.destination.has_directory() ? place.destination.directory.string() : place.url}};
    if (place.destination.has_both()) places["relay"] = place.url;
    if (!place.memory.empty()) places["memory_directory"] = place.memory.string();
    return places;
}

json shown(const DaemonSession& session, const Applications& applications) {
    json channels = json::array();
    for (std::size_t i = 0; i < session.session.channels().size(); ++i) {
        json channel = channel_json(session.session.channels()[i], session.session.buffers());
        const ChannelFigures figures = figures_of(session, i);
        channel["events"] = figures.events;
        channel["discarded"] = figures.discarded;
        channels.push_back(std::move(channel));
    }
    json conflicts = json::array();
    for (const Session::KnownConflict& conflict : session.session.conflicts())
        conflicts.push_back(conflict_json(conflict));
    const session::Tracked& tracked = session.session.tracked();
    json described = {{"name", session.session.name()},
                      {"state", state_name(session)},
                      {"live", session.place.destination.is_live},
                      {"started_once", session.was_started},
                      {"memory", memory_of(session)},
                      {"refused",
                       {{"traces", session.session.refused().traces.size()},
                        {"events", session.session.refused().events},
                        {"reason", session.session.refused().reason}}},
                      {"applications", application_count(session, applications)},
                      {"applications_not_blocking", not_blocking_count(session, applications)},
                      {"tracked",
                       {{"vpid", tracked_json(tracked.vpids)},
                        {"vuid", tracked_json(tracked.vuids)},
                        {"vgid", tracked_json(tracked.vgids)}}},
                      {"channels", std::move(channels)},
                      {"conflicts", std::move(conflicts)}};
    described.update(places_json(session.place));
    described["snapshot"] = session.session.is_for_snapshots();
    if (session.session.is_for_snapshots()) {
        described["snapshot_on"] = session.session.snapshot_on();
        described["snapshots"] = session.thread->snapshots_stored();
    }
    described.update(limits_json(session.limits));
    if (session.limits.max_size != 0) described["bytes"] = session.thread->bytes();
    if (session.stopped_by != session::StoppedBy::kNobody)
        described["stopped_by"] = session::name_of(session.stopped_by);
    if (session.place.destination.has_both())
        described["relay_missed_packets"] = session.thread->missing().relay_packets;
    described["removed_events"] = session.thread->missing().removed_events;
    return described;
}

json discarded(const DaemonSession& session) {
    json channels = json::object();
    for (std::size_t i = 0; i < session.session.channels().size(); ++i)
        channels[session.session.channels()[i].name] = figures_of(session, i).discarded;
    return channels;
}

std::uint64_t event_count(const DaemonSession& session) {
    const auto& channels = session.session.channels();
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < channels.size(); ++i)
        if (!channels[i].is_trigger) sum += figures_of(session, i).events;
    return sum;
}

json definition_of(const DaemonSession& session) {
    json channels = json::array();
    for (const session::Channel& channel : session.session.channels()) {
        json described = channel_json(channel, session.session.buffers());
        for (std::size_t i = 0; i < channel.rules.size(); ++i)
            if (channel.rules[i].on_conflict == session::OnConflict::kVersion)
                described["rules"][i]["on_conflict"] = "version";
        channels.push_back(std::move(described));
    }
    const session::Tracked& tracked = session.session.tracked();
    json definition{{"leat_session", 1},
                    {"name", session.session.name()},
                    {"active", session.session.is_active()},
                    {"tracked",
                     {{"vpid", tracked_json(tracked.vpids)},
                      {"vuid", tracked_json(tracked.vuids)},
                      {"vgid", tracked_json(tracked.vgids)}}},
                    {"channels", std::move(channels)}};
    if (session.session.is_for_snapshots()) {
        definition["snapshot"] = true;
        definition["snapshot_on"] = session.session.snapshot_on();
    }
    definition.update(limits_json(session.limits));
    if (session.place.destination.has_directory())
        definition["directory"] = session.place.destination.directory.string();
    if (!session.place.memory.empty()) definition["shm_path"] = session.place.memory.parent_path().string();
    if (!session.place.url.empty())
        definition[session.place.destination.is_live ? "live" : "output"] = session.place.url;
    return definition;
}

session::Limits read_limits(Members& members) {
    session::Limits limits;
    for (const auto& [name, limit] : {std::pair{"duration_us", &limits.duration_us}, {"max_size", &limits.max_size}}) {
        const auto number = members.number(name, 0, INT64_MAX);
        if (number == 0) members.refuse("\"{}\" is more than 0: leave it out for no limit", name);
        *limit = static_cast<std::uint64_t>(number.value_or(0));
    }
    if (const auto checked = limits.check(); !checked) members.refuse("{}", checked.error().message);
    return limits;
}

Result<session::Contexts> contexts_of(const std::vector<std::string>& names) {
    auto contexts = session::parse_contexts(names);
    return contexts ? std::move(contexts) : bad_usage("{}", contexts.error().message);
}

Result<session::EventRule> rule_of(Members& members) {
    session::EventRule rule{.pattern = members.needed_text("pattern"), .exclusions = members.texts("exclude")};
    if (rule.pattern.empty()) members.refuse("the pattern of events is empty");
    const auto level = members.text("loglevel");
    const auto only = members.text("loglevel_only");
    if (level && only) members.refuse("\"loglevel\" and \"loglevel_only\" exclude each other");
    if (level || only) {
        const auto number = session::parse_log_level(level ? *level : *only);
        if (!number) return bad_usage("{}", number.error().message);
        rule.log_level = *number;
        rule.is_log_level_only = only.has_value();
    }
    const std::string on_conflict = members.text("on_conflict").value_or("refuse");
    if (on_conflict != "refuse" && on_conflict != "version")
        members.refuse("\"on_conflict\" is refuse or version, not \"{}\"", printable(on_conflict));
    if (on_conflict == "version") rule.on_conflict = session::OnConflict::kVersion;
    return rule;
}

Result<void> read_channel(Members& members, session::Channel& channel) {
    const auto size = members.number("ring_size", 0, INT64_MAX);
    if (size && !ring::is_valid_ring_size(static_cast<std::uint64_t>(*size)))
        members.refuse("the ring size is a power of two from 64K to 1G, not {}", *size);
    if (size) channel.ring_size = static_cast<std::uint64_t>(*size);
    const std::string header = members.text("header").value_or("compact");
    const auto kind = session::header_kind(header);
    if (!kind) members.refuse("\"header\" is compact, large or tiny, not \"{}\"", printable(header));
    channel.header = kind.value_or(channel.header);
    read_blocking(members, channel);
    channel.read_period_us = read_period(members, "read_period_us");
    channel.switch_period_us = read_period(members, "switch_period_us");
    channel.files = read_file_limits(members);
    return {};
}

Result<void> check_mode(const session::Channel& channel, bool is_for_snapshots) {
    if (!is_for_snapshots && (channel.overwrites || channel.is_trigger))
        return refused("mode \"{}\" is for sessions of snapshots: create one with --snapshot", mode_name(channel));
    if (channel.name == session::kTriggerChannel && !channel.is_trigger && is_for_snapshots)
        return refused("channel \"{}\" is that of --snapshot-on: choose another name", channel.name);
    if (!is_for_snapshots) return {};
    if (channel.blocking_timeout_us != wire::kNoBlocking)
        return refused("channels of a session of snapshots overwrite their oldest events: they do not block");
    if (channel.files.size != 0)
        return refused("snapshots are limited by the size of the rings or by --max-size: no --tracefile-size");
    return {};
}

Result<void> check_together(const session::Channel& one, const session::Channel& other) {
    if (!have_one_clock(one, other))
        return refused("headers of a session are all tiny, or none is: those of channel \"{}\" are {}, of \"{}\" {}",
                       one.name, session::header_name(one.header), other.name, session::header_name(other.header));
    if (!have_files_alike(one, other) && !have_files_alike(other, one)) return {};
    return refused("files of channels \"{}\" and \"{}\" would have the same names: choose another name", one.name,
                   other.name);
}

std::vector<std::string> read_snapshot_on(Members& members) {
    std::vector<std::string> patterns = members.texts("snapshot_on");
    if (std::ranges::any_of(patterns, &std::string::empty)) members.refuse("\"snapshot_on\" has an empty pattern");
    return patterns;
}

Result<Definition> read_definition(Members& members) {
    Definition definition{.parameters = {.name = members.text("name").value_or("")}};
    definition.is_active = members.truth("active").value_or(false);
    definition.limits = read_limits(members);
    definition.parameters.is_for_snapshots = members.truth("snapshot").value_or(false);
    definition.parameters.snapshot_on = read_snapshot_on(members);
    if (const json* const ids = members.any("tracked")) {
        Members of_tracked(*ids, "\"tracked\"");
        read_ids(of_tracked, "vpid", definition.tracked.vpids);
        read_ids(of_tracked, "vuid", definition.tracked.vuids);
        read_ids(of_tracked, "vgid", definition.tracked.vgids);
        LEAT_TRY(of_tracked.check());
    }
    const auto channels = members.objects("channels");
    // That of --snapshot-on was made by itself.
    if (channels.size() > kMaxChannels + 1) return refused("{} channels: at most {}", channels.size(), kMaxChannels);
    definition.parameters.buffers = LEAT_TRY(buffers_of_definition(channels));
    for (const json& described : channels) {
        auto channel = LEAT_TRY(channel_of_definition(described));
        LEAT_TRY(check_mode(channel, definition.parameters.is_for_snapshots));
        channel.overwrites = definition.parameters.is_for_snapshots && !channel.is_trigger;
        std::vector<session::Channel>& known = definition.parameters.channels;
        if (std::ranges::any_of(known, [&](const auto& other) { return other.name == channel.name; }))
            return bad_usage("two channels are called \"{}\"", channel.name);
        for (const session::Channel& other : known) LEAT_TRY(check_together(channel, other));
        known.push_back(std::move(channel));
    }
    const auto& known = definition.parameters.channels;
    const auto of_users = std::ranges::count_if(known, std::not_fn(&session::Channel::is_trigger));
    if (static_cast<std::size_t>(of_users) > kMaxChannels)
        return refused("{} channels: at most {}", of_users, kMaxChannels);
    if (!known.empty() && std::ranges::all_of(known, &session::Channel::is_trigger))
        return bad_usage("a session of snapshots has a channel that overwrites");
    return definition;
}

}  // namespace leat::sessiond
