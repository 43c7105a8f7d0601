// Verbs about whole sessions.
#include <pwd.h>

#include <algorithm>
#include <array>
#include <set>
#include <tuple>

#include "base/descriptors.hpp"
#include "base/local_time.hpp"
#include "base/log.hpp"
#include "base/printable_text.hpp"
#include "net/relay_address.hpp"
#include "sessiond/commands.hpp"
#include "sessiond/session_json.hpp"

namespace leat::sessiond {
namespace {

using nlohmann::json;
using session::Session;
namespace fs = std::filesystem;

constexpr std::size_t kMaxSessions = 1000;
constexpr int kDefinitionVersion = 1;

// As whoever adds them one by one is told. What a daemon goes on with has them by then.
Result<void> check_count_of_rules(const Session::Parameters& parameters) {
    if (parameters.snapshot_on.size() > session::kMaxRules)
        return refused("\"snapshot_on\" has {} patterns: {} is the most", parameters.snapshot_on.size(),
                       session::kMaxRules);
    for (const session::Channel& channel : parameters.channels)
        if (channel.rules.size() > session::kMaxRules)
            return refused("channel \"{}\" has {} rules: {} is the most", channel.name, channel.rules.size(),
                           session::kMaxRules);
    return {};
}

Result<fs::path> home_of(const Client& client) {
    std::array<char, 16384> buffer{};
    passwd entry{};
    passwd* found = nullptr;
    if (::getpwuid_r(client.uid, &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr ||
        entry.pw_dir == nullptr || entry.pw_dir[0] != '/')
        return refused("user {} has no home directory for the trace: choose a place with -o", client.uid);
    return entry.pw_dir;
}

Result<Place> place_of(Members& members, const Client& client, const std::string& session, DefaultPlaces& places) {
    auto directory = members.text("directory");
    const auto home = members.text("home");
    const auto output = members.text("output");
    const auto live = members.text("live");
    const auto memory = members.text("shm_path");
    if (memory && (!memory->starts_with('/') || memory->find('\0') != std::string::npos))
        return bad_usage("\"shm_path\" is no absolute path");
    if (output && live) return bad_usage("a session goes to one relay: with viewers, or without");
    Place place;
    if (memory) place.memory = *memory;
    if (output || live) {
        place.url = output ? *output : *live;
        place.destination.is_live = live.has_value();
        auto relay = net::parse_relay_address(place.url);
        if (!relay) return bad_usage("{}", relay.error().message);
        place.destination.relay = *std::move(relay);
        if (session.starts_with('.')) return bad_usage("a relay takes no session name that begins with a dot");
        if (!directory) return place;
    }
    for (const auto& [name, path] : {std::pair("directory", directory), std::pair("home", home)})
        if (path && (!path->starts_with('/') || path->find('\0') != std::string::npos))
            return bad_usage("\"{}\" is no absolute path", name);
    if (!directory)
        directory =
            places.next(home ? fs::path(*home) : LEAT_TRY(home_of(client)), session, local_time_text("%Y%m%d-%H%M%S"));
    place.destination.directory = fs::path(*directory).lexically_normal();
    return place;
}

// With a slash at its end or without.
bool is_same_place(const host::Destination& one, const host::Destination& other) {
    return (one.directory / "").lexically_normal() == (other.directory / "").lexically_normal();
}

tl::unexpected<Error> place_is_taken(const std::string& by, const fs::path& place) {
    return refused("session \"{}\" goes to {} already: choose another with -o", by, place.string());
}

json counts_of(const DaemonSession& session) {
    json answer = answer_ok();
    answer["session"] = session.session.name();
    answer["events"] = event_count(session);
    if (session.session.is_for_snapshots()) answer["snapshots"] = session.thread->snapshots_stored();
    answer["discarded"] = discarded(session);
    return answer;
}

// Where the rings will be files, if they are to be.
Result<void> make_memory_directory(const Client& client, const std::string& session, Place& place) {
    if (place.memory.empty()) return {};
    if (client.uid != ::geteuid())
        return refused(
            "only user {}, who runs this session daemon, can have rings in files: trace without --shm-path, "
            "or with a session daemon of your own",
            ::geteuid());
    place.memory = LEAT_TRY(session::MemoryDirectory::make_for_session(place.memory, session));
    return {};
}

void warn_of_relay(json& answer, const DaemonSession& session) {
    const std::uint64_t missed = session.thread->missing().relay_packets;
    if (missed == 0) return;
    answer["warnings"].push_back(
        fmt::format("{} misses {} packets, which are in {}: see whether it is there and fast enough", session.place.url,
                    missed, session.place.destination.directory.string()));
}

void warn_of_removed_files(json& answer, const DaemonSession& session) {
    const std::uint64_t events = session.thread->missing().removed_events;
    if (events == 0) return;
    answer["warnings"].push_back(
        fmt::format("session {}: {} events are missing in {}: their files were removed while they were recorded",
                    session.session.name(), events, session.place.destination.directory.string()));
}

void warn_of_storage(json& answer, const DaemonSession& session) {
    const std::string trouble = session.thread->storage_trouble();
    if (trouble.empty()) return;
    answer["warnings"].push_back(
        fmt::format("session {}: {}: events stay in the rings while there is room", session.session.name(), trouble));
}

void warn_of_snapshot(json& answer, const DaemonSession& session) {
    const std::string trouble = session.thread->snapshot_trouble();
    if (trouble.empty()) return;
    answer["warnings"].push_back(
        fmt::format("session {}: the snapshot that was asked for last is not stored, or not as a whole: {}",
                    session.session.name(), trouble));
}

}  // namespace

// Once its thread has seen to its place, which is called `directory`.
Result<void> Commands::check_made(const DaemonSession& made, const std::string& trouble,
                                  const fs::path& directory) const {
    if (!trouble.empty()) return refused("{}", trouble);
    if (when_ended_) return tl::unexpected(daemon_ends());
    for (const auto& [name, other] : tracing_.sessions())
        if (&other != &made && !directory.empty() && other.directory == directory)
            return place_is_taken(name, directory);
    return {};
}

std::optional<Commands::Answer> Commands::create_session(Call& call, Definition definition, Place place) {
    const Session::Parameters& wanted = definition.parameters;
    if (!wanted.is_for_snapshots && !wanted.snapshot_on.empty())
        return bad_usage("\"snapshot_on\" is for sessions of snapshots: add \"snapshot\"");
    if (wanted.is_for_snapshots)
        if (const auto checked = host::check_place_of_snapshots(place.destination); !checked)
            return bad_usage("{}", checked.error().message);
    if (wanted.channels.empty()) definition.is_active = false;
    const std::string name = definition.parameters.name;
    if (auto checked = check_name(name, "session"); !checked) return tl::unexpected(std::move(checked).error());
    if (tracing_.find(name) != nullptr)
        return refused("session \"{}\" exists: choose another name, or destroy it", name);
    if (tracing_.sessions().size() >= kMaxSessions)
        return refused("there are {} sessions already: destroy one", kMaxSessions);
    // The other may not have written anything yet, so that prepare() could not tell.
    for (const auto& [other_name, other] : tracing_.sessions())
        if (place.destination.has_directory() && other.place.destination.has_directory() &&
            is_same_place(place.destination, other.place.destination))
            return place_is_taken(other_name, place.destination.directory);
    if (auto made = make_memory_directory(call.client, name, place); !made)
        return tl::unexpected(std::move(made).error());
    if (call.client.uid != ::geteuid()) place.owner = Owner{call.client.uid, call.client.gid};
    place.destination.belongs_to_users = !place.owner && ::geteuid() == 0;
    const bool is_active = std::exchange(definition.is_active, false);
    const fs::path memory = place.memory;
    auto added = tracing_.add(std::move(definition), std::move(place));
    if (!added) {
        if (!memory.empty()) session::MemoryDirectory::remove_of_session(memory);
        return tl::unexpected(std::move(added).error());
    }
    DaemonSession& session = **added;
    // Nobody else may take or use the name until it is known whether there is a place for the session.
    session.is_ending = true;
    session.thread->prepare([this, name, is_active, uid = call.client.uid, reply = call.reply](
                                const std::string& trouble, const std::string& warning, const fs::path& directory) {
        DaemonSession& made = *tracing_.find(name);
        if (const auto checked = check_made(made, trouble, directory); !checked) {
            remove(name, true);
            return reply(answer_error(checked.error()));
        }
        made.directory = directory;
        made.is_made = true;
        made.is_ending = false;
        tracing_.current()[uid] = name;
        json answer = answer_ok();
        answer["session"] = name;
        answer.update(places_json(made.place));
        answer["warnings"] = json::array();
        if (is_active) {
            answer["active"] = true;
            made.was_started = true;
            Tracing::activate(made);
            answer = changed(std::move(answer));
        }
        if (!warning.empty()) answer["warnings"].push_back(warning);
        reply(std::move(answer));
    });
    return std::nullopt;
}

std::optional<Commands::Answer> Commands::create(Call& call) {
    const std::string name = call.members.needed_text("session");
    auto place = place_of(call.members, call.client, name, default_places_);
    const session::Limits limits = read_limits(call.members);
    const bool is_for_snapshots = call.members.truth("snapshot").value_or(false);
    std::vector<std::string> snapshot_on = read_snapshot_on(call.members);
    if (auto wrong = call.members.check(); !wrong) return tl::unexpected(std::move(wrong).error());
    if (!place) return tl::unexpected(std::move(place).error());
    Definition definition{.parameters = {.name = name,
                                         .buffers = Session::Buffers::kUser,
                                         .is_for_snapshots = is_for_snapshots,
                                         .snapshot_on = std::move(snapshot_on)},
                          .limits = limits};
    if (auto few = check_count_of_rules(definition.parameters); !few) return tl::unexpected(std::move(few).error());
    return create_session(call, std::move(definition), *std::move(place));
}

std::optional<Commands::Answer> Commands::set_session(Call& call) {
    const std::string name = call.members.needed_text("session");
    if (auto wrong = call.members.check(); !wrong) return tl::unexpected(std::move(wrong).error());
    if (tracing_.find(name) == nullptr) return tl::unexpected(no_such_session(name));
    json answer = answer_ok();
    answer["session"] = name;
    if (std::exchange(tracing_.current()[call.client.uid], name) == name) answer["already"] = true;
    return answer;
}

std::optional<Commands::Answer> Commands::start(Call& call) {
    auto session = session_of(call);
    if (auto wrong = call.members.check(); !wrong) return tl::unexpected(std::move(wrong).error());
    if (!session) return tl::unexpected(std::move(session).error());
    json answer = answer_ok();
    answer["session"] = (*session)->session.name();
    if ((*session)->session.is_active()) {
        answer["already"] = true;
        return answer;
    }
    if ((*session)->stopped_by == session::StoppedBy::kMaxSize)
        return refused("session \"{}\" has reached its size of {} bytes: destroy it, and create another",
                       (*session)->session.name(), (*session)->limits.max_size);
    if ((*session)->session.channels().empty())
        return refused("session \"{}\" records nothing yet: choose events with leat enable-event",
                       (*session)->session.name());
    (*session)->was_started = true;
    ++(*session)->starts;
    (*session)->is_rotated = (*session)->is_rotating = false;
    Tracing::activate(**session);
    return changed(std::move(answer));
}

// Switched off first, then stored: so whoever has the answer finds all in the trace.
std::optional<Commands::Answer> Commands::stop(Call& call) {
    auto session = session_of(call);
    if (auto wrong = call.members.check(); !wrong) return tl::unexpected(std::move(wrong).error());
    if (!session) return tl::unexpected(std::move(session).error());
    const bool is_active = (*session)->session.is_active();
    tracing_.stop_recording(**session);
    // Also if it was stopped: the daemon before may have been killed in the middle of that.
    (void)tracing_.order_all_at_once();
    const std::string name = (*session)->session.name();
    (*session)->thread->settle([this, name, is_active, reply = call.reply](const std::string& trouble) {
        DaemonSession* const stopped = tracing_.find(name);
        if (stopped == nullptr) return reply(answer_error(no_such_session(name)));
        tracing_.count_not_attached();
        json answer = counts_of(*stopped);
        answer["warnings"] = json::array();
        warn_of_relay(answer, *stopped);
        warn_of_removed_files(answer, *stopped);
        if (!is_active) answer["already"] = true;
        if (!trouble.empty()) answer["warnings"].push_back(trouble + ": events stay in the rings");
        reply(std::move(answer));
    });
    return std::nullopt;
}

// A session that was destroyed meanwhile has no values.
void Commands::replay_sticky_values(const std::string& session) {
    DaemonSession* const found = tracing_.find(session);
    if (found != nullptr) tracing_.replay_sticky_values(*found);
}

std::optional<Commands::Answer> Commands::rotate(Call& call) {
    auto session = session_of(call);
    if (auto wrong = call.members.check(); !wrong) return tl::unexpected(std::move(wrong).error());
    if (!session) return tl::unexpected(std::move(session).error());
    const std::string name = (*session)->session.name();
    if ((*session)->session.is_for_snapshots())
        return refused("session \"{}\" stores snapshots alone, which are complete: leat snapshot record", name);
    if (!(*session)->was_started) return refused("session \"{}\" was never started: there is nothing to rotate", name);
    const bool is_active = (*session)->session.is_active();
    if (!is_active && ((*session)->is_rotated || std::exchange((*session)->is_rotating, true)))
        return refused("session \"{}\" was rotated since it was stopped: there is nothing new", name);
    (*session)->thread->rotate([this, name, is_active, starts = (*session)->starts, reply = call.reply](
                                   const std::string& trouble, const std::string& path, bool has_begun) {
        DaemonSession* const rotated = tracing_.find(name);
        // Nothing if it was started meanwhile.
        if (rotated != nullptr && !is_active && rotated->starts == starts) {
            rotated->is_rotating = false;
            rotated->is_rotated = trouble.empty();  // else it is to be tried again
        }
        if (has_begun) replay_sticky_values(name);
        if (!trouble.empty()) return reply(answer_error({ErrorKind::kRefused, trouble}));
        json answer = answer_ok();
        answer["session"] = name;
        answer["chunk"] = path;
        reply(std::move(answer));
    });
    return std::nullopt;
}

std::optional<Commands::Answer> Commands::clear(Call& call) {
    auto session = session_of(call);
    if (auto wrong = call.members.check(); !wrong) return tl::unexpected(std::move(wrong).error());
    if (!session) return tl::unexpected(std::move(session).error());
    // Programs that have ended by now: their traces do so, and go away as a whole.
    tracing_.look();
    std::vector<output::ChannelFiles> channels;
    for (const session::Channel& channel : (*session)->session.channels())
        channels.push_back({.name = channel.name, .limits = channel.files});
    (*session)->thread->clear(std::move(channels),
                              [this, name = (*session)->session.name(), reply = call.reply](
                                  const std::string& trouble, const std::string& /*path*/, bool has_begun) {
                                  if (has_begun) replay_sticky_values(name);
                                  if (!trouble.empty()) return reply(answer_error({ErrorKind::kRefused, trouble}));
                                  json answer = answer_ok();
                                  answer["session"] = name;
                                  reply(std::move(answer));
                              });
    return std::nullopt;
}

std::optional<Commands::Answer> Commands::destroy(Call& call) {
    auto session = session_of(call);
    if (auto wrong = call.members.check(); !wrong) return tl::unexpected(std::move(wrong).error());
    if (!session) return tl::unexpected(std::move(session).error());
    finish(**session, [reply = call.reply](json answer) { reply(std::move(answer)); });
    return std::nullopt;
}

void Commands::finish(DaemonSession& session, Reply reply) {
    // A program may just have crashed.
    tracing_.look();
    session.is_ending = true;
    tracing_.stop_recording(session);
    (void)tracing_.order_all_at_once();
    const std::string name = session.session.name();
    session.thread->finish([this, name, reply = std::move(reply)](const std::string& trouble) {
        tracing_.count_not_attached();
        DaemonSession& ended = *tracing_.find(name);
        json answer = counts_of(ended);
        answer["warnings"] = json::array();
        warn_of_relay(answer, ended);
        warn_of_removed_files(answer, ended);
        if (!trouble.empty()) {
            log_error("session {}: {}", name, trouble);
            answer["warnings"].push_back(trouble);
            if (!ended.place.memory.empty())
                answer["warnings"].push_back(
                    fmt::format("what is not stored stays in {}: see leat recover", ended.place.memory.string()));
        }
        remove(name, trouble.empty());
        reply(std::move(answer));
    });
}

void Commands::remove(const std::string& name, bool is_stored) {
    tracing_.remove(name, is_stored);
    if (when_ended_ && tracing_.sessions().empty()) when_ended_();
}

// Also those that clients are making or destroying: they get their answers.
void Commands::destroy_all(std::function<void()> done) {
    when_ended_ = std::move(done);
    for (auto& [name, session] : tracing_.sessions())
        if (!session.is_ending) finish(session, [](const json&) {});
    if (tracing_.sessions().empty()) when_ended_();
}

std::optional<Commands::Answer> Commands::list(Call& call) {
    const auto name = call.members.text("session");
    if (auto wrong = call.members.check(); !wrong) return tl::unexpected(std::move(wrong).error());
    if (name && tracing_.find(*name) == nullptr) return tl::unexpected(no_such_session(*name));
    tracing_.look();
    tracing_.count_not_attached();
    json answer = answer_ok();
    answer["sessions"] = json::array();
    answer["warnings"] = json::array();
    for (const auto& [of, session] : tracing_.sessions()) {
        if (name && *name != of) continue;
        answer["sessions"].push_back(shown_to(call.client, session));
        warn_of_storage(answer, session);
        warn_of_snapshot(answer, session);
        warn_of_removed_files(answer, session);
    }
    return answer;
}

std::optional<Commands::Answer> Commands::status(Call& call) {
    auto session = session_of(call);
    if (auto wrong = call.members.check(); !wrong) return tl::unexpected(std::move(wrong).error());
    if (!session) return tl::unexpected(std::move(session).error());
    tracing_.look();
    tracing_.count_not_attached();
    json answer = answer_ok();
    answer["session"] = (*session)->session.name();
    answer["sessions"] = json::array({shown_to(call.client, **session)});
    answer["warnings"] = json::array();
    warn_of_storage(answer, **session);
    warn_of_snapshot(answer, **session);
    warn_of_removed_files(answer, **session);
    answer["descriptors"] = {{"open", open_descriptors()}, {"limit", descriptor_limit()}};
    return answer;
}

json Commands::shown_to(const Client& client, const DaemonSession& session) {
    json described = shown(session, tracing_.applications());
    const auto current = tracing_.current().find(client.uid);
    described["current"] = current != tracing_.current().end() && current->second == session.session.name();
    return described;
}

std::optional<Commands::Answer> Commands::list_programs(Call& call) {
    if (auto wrong = call.members.check(); !wrong) return tl::unexpected(std::move(wrong).error());
    tracing_.look();
    struct Program {
        const session::Application* application;
        std::set<std::string> events;
    };
    std::map<session::ProcessKey, Program> programs;
    for (const auto& [id, file] : tracing_.applications().files()) {
        Program& program = programs[file.application.process()];
        program.application = &file.application;
        for (const wire::TracepointDescription& tracepoint : *file.application.tracepoints)
            program.events.insert(tracepoint.name);
    }
    json answer = answer_ok();
    answer["programs"] = json::array();
    for (const auto& [key, program] : programs)
        answer["programs"].push_back({{"pid", program.application->pid},
                                      {"uid", program.application->uid},
                                      {"name", program.application->procname},
                                      {"bits", program.application->bitness},
                                      {"events", program.events}});
    return answer;
}

std::optional<Commands::Answer> Commands::save(Call& call) {
    auto session = session_of(call);
    if (auto wrong = call.members.check(); !wrong) return tl::unexpected(std::move(wrong).error());
    if (!session) return tl::unexpected(std::move(session).error());
    json answer = answer_ok();
    answer["session"] = (*session)->session.name();
    answer["definition"] = definition_of(**session);
    return answer;
}

std::optional<Commands::Answer> Commands::load(Call& call) {
    const auto other_name = call.members.text("session");
    const json* const described = call.members.any("definition");
    if (auto wrong = call.members.check(); !wrong) return tl::unexpected(std::move(wrong).error());
    if (described == nullptr) return bad_usage("the request has no \"definition\"");
    Members members(*described, "the definition");
    const auto version = members.number("leat_session", 0, INT64_MAX);
    if (version != kDefinitionVersion)
        return unsupported("this is no session of version {}, as leat save writes it", kDefinitionVersion);
    const std::string saved_name = members.needed_text("name");
    auto definition = read_definition(members);
    auto place = place_of(members, call.client, other_name.value_or(saved_name), default_places_);
    // The request is one that can be understood: it is what somebody has saved that cannot.
    if (!definition) return refused("{}", definition.error().message);
    for (const session::Channel& channel : definition->parameters.channels)
        if (auto named = check_channel_name(channel.name); !named) return refused("{}", named.error().message);
    if (auto few = check_count_of_rules(definition->parameters); !few) return tl::unexpected(std::move(few).error());
    if (auto wrong = members.check(); !wrong) return refused("{}", wrong.error().message);
    if (!place) return tl::unexpected(std::move(place).error());
    definition->parameters.name = other_name.value_or(saved_name);
    return create_session(call, *std::move(definition), *std::move(place));
}

}  // namespace leat::sessiond
