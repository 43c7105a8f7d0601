#include "sessiond/kept_state.hpp"

#include "host/kept_trace.hpp"
#include "net/relay_address.hpp"
#include "sessiond/session_json.hpp"

namespace leat::sessiond {
namespace {

using nlohmann::json;

json place_json(const Place& place) {
    return {{"directory", place.destination.directory.string()},
            {"url", place.url},
            {"live", place.destination.is_live},
            {"belongs_to_users", place.destination.belongs_to_users},
            {"memory", place.memory.string()},
            {"owner", place.owner ? json{{"uid", place.owner->uid}, {"gid", place.owner->gid}} : json()}};
}

json traces_json(const DaemonSession& session) {
    json traces = json::array();
    const auto add = [&](const session::Trace& trace) {
        const auto part = session.parts.find(&trace);
        if (part != session.parts.end() && part->second.progress) {
            traces.push_back(host::trace_json(trace));
            traces.back()["id"] = part->second.id;
        }
    };
    for (const auto& [key, trace] : session.session.traces()) add(*trace);
    for (const auto& trace : session.ending_traces) add(*trace);
    return traces;
}

json session_json(const DaemonSession& session) {
    json ended = json::object();
    for (const auto& [channel, figures] : session.ended)
        ended[channel] = {{"events", figures.events}, {"bytes", figures.bytes}, {"discarded", figures.discarded}};
    return {{"id", session.id},
            {"definition", definition_of(session)},
            {"place", place_json(session.place)},
            {"made", session.directory.string()},
            {"was_started", session.was_started},
            {"is_rotated", session.is_rotated},
            {"snapshot_wanted", session.snapshots_asked != 0},
            {"stopped_by", session::name_of(session.stopped_by)},
            // Of a clock that begins anew when the system does, as the memory of the keeper does.
            {"stops_at", session.stops_at ? std::chrono::nanoseconds(session.stops_at->time_since_epoch()).count() : 0},
            {"ended", std::move(ended)},
            {"not_attached", session.not_attached},
            {"traces", traces_json(session)}};
}

}  // namespace

std::string kept_name(std::uint64_t id, const std::string& part) { return fmt::format("{}/{}", id, part); }

json kept_state(const Tracing& tracing) {
    json sessions = json::array();
    for (const auto& [name, session] : tracing.sessions())
        if (session.is_made) sessions.push_back(session_json(session));
    json current = json::array();
    for (const auto& [uid, name] : tracing.current()) current.push_back({{"uid", uid}, {"session", name}});
    json counted = json::array();
    const auto add_count = [&counted](const FileId& id, pid_t pid, std::uint64_t count) {
        if (count != 0)
            counted.push_back({{"device", id.device},
                               {"inode", id.inode},
                               {"number", id.number},
                               {"pid", pid},
                               {"not_attached", count}});
    };
    const auto& files = tracing.applications().files();
    for (const auto& [id, file] : files) add_count(id, file.application.pid, file.not_attached);
    for (const auto& [id, before] : tracing.counted_before())
        if (!files.contains(id)) add_count(id, before.pid, before.count);
    return {{"leat_state", kStateVersion},
            {"sessions", std::move(sessions)},
            {"current", std::move(current)},
            {"counted", std::move(counted)}};
}

Place place_from(const json& described) {
    Place place;
    place.url = described.at("url").get<std::string>();
    place.destination.directory = described.at("directory").get<std::string>();
    place.destination.is_live = described.at("live").get<bool>();
    place.destination.belongs_to_users = described.at("belongs_to_users").get<bool>();
    place.memory = described.at("memory").get<std::string>();
    if (const json& owner = described.at("owner"); !owner.is_null())
        place.owner = Owner{owner.at("uid").get<uid_t>(), owner.at("gid").get<gid_t>()};
    if (auto relay = net::parse_relay_address(place.url); !place.url.empty() && relay)
        place.destination.relay = *std::move(relay);
    return place;
}

session::StoppedBy stopped_by_from(const json& name) {
    for (const session::StoppedBy by : {session::StoppedBy::kDuration, session::StoppedBy::kMaxSize})
        if (name == session::name_of(by)) return by;
    return session::StoppedBy::kNobody;
}

std::map<std::string, ChannelFigures> figures_from(const json& described) {
    std::map<std::string, ChannelFigures> figures;
    for (const auto& [channel, known] : described.items())
        figures[channel] = {.events = known.at("events").get<std::uint64_t>(),
                            .bytes = known.at("bytes").get<std::uint64_t>(),
                            .discarded = known.at("discarded").get<std::map<std::string, std::uint64_t>>()};
    return figures;
}

}  // namespace leat::sessiond
