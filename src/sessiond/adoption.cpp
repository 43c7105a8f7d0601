// How sessions outlive a daemon that is killed: what is kept while it runs, and how the next one goes on with that.
// docs/formats/runtime-directory.md, "The keeper".
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <set>
#include <span>
#include <utility>

#include "base/file.hpp"
#include "base/log.hpp"
#include "host/kept_trace.hpp"
#include "ring/ring_set.hpp"
#include "sessiond/kept_state.hpp"
#include "sessiond/session_json.hpp"
#include "sessiond/tracing.hpp"
#include "wire/app/runtime_layout.hpp"

namespace leat::sessiond {
namespace {

using nlohmann::json;

constexpr std::size_t kLargestState = 256U << 20;

Result<UniqueFd> memory_of(const std::string& text) {
    UniqueFd memory(::memfd_create("leat-state", MFD_CLOEXEC));
    if (!memory.is_open()) return io_error("cannot create memory for the state");
    LEAT_TRY(write_all(memory.get(), std::as_bytes(std::span(text))));
    return memory;
}

Result<json> read_state(int fd) {
    const std::string text = LEAT_TRY(read_file(fmt::format("/proc/self/fd/{}", fd), kLargestState));
    json state = json::parse(text, nullptr, false);
    if (!state.is_object()) return corrupt("it cannot be read");
    const json version = state.value("leat_state", json());
    if (version != kStateVersion)
        return unsupported("it is of version {}, this daemon of {}", version.dump(), kStateVersion);
    return state;
}

// Bytes of packets that a session has, or may have, also in traces that have ended: known before anything more is
// stored.
Result<std::uint64_t> stored_bytes(const json& described, const Keeper::Kept& kept) {
    std::uint64_t sum = 0;
    for (const auto& [channel, figures] : figures_from(described.at("ended"))) sum += figures.bytes;
    for (const json& trace : described.at("traces")) {
        const host::KnownTrace known = host::trace_from(trace);
        const auto id = trace.at("id").get<std::uint64_t>();
        std::size_t parts = 0;
        while (kept.contains(kept_name(id, std::to_string(parts)))) ++parts;
        if (parts == 0) continue;
        const int fd = kept.at(kept_name(id, std::to_string(parts - 1))).get();
        std::vector<std::uint32_t> rings;
        rings.reserve(known.shape.channels.size());
        for (const auto& channel : known.shape.channels) rings.push_back(channel.geometry.ring_count());
        UniqueFd memory = duplicate(fd);
        if (!memory.is_open()) return io_error("cannot look at its progress");
        const auto progress = consumer::Progress::adopt(std::move(memory), rings);
        if (is_disk_full(progress)) return tl::unexpected(progress.error());
        // One that cannot be read is lost, as is said later.
        if (progress) sum += progress->bytes();
    }
    return sum;
}

// Of the session or trace that a name belongs to: see kept_name(). 0: of none.
std::uint64_t number_of(const std::string& name) { return std::strtoull(name.c_str(), nullptr, 10); }

// Of a trace: numbered from 0.
std::vector<UniqueFd> take_memory(Keeper::Kept& kept, std::uint64_t id) {
    std::vector<UniqueFd> memory;
    for (std::size_t i = 0;; ++i) {
        const auto found = kept.find(kept_name(id, std::to_string(i)));
        if (found == kept.end()) return memory;
        memory.push_back(std::move(found->second));
    }
}

}  // namespace

// Before any program has to do with the trace.
Result<void> Tracing::complete(session::Trace& trace, const host::Destination& destination) {
    auto progress = consumer::Progress::create(trace.ring_counts(), trace.place());
    if (!progress && trace.files() == nullptr) {
        log_error("session {} will not survive this daemon: {}", trace.parameters().session_name,
                  progress.error().message);
        return {};
    }
    if (!progress) return tl::unexpected(std::move(progress).error());
    if (trace.files() != nullptr) LEAT_TRY(host::describe_memory(trace, destination));
    new_progress_[&trace] = std::make_unique<consumer::Progress>(*std::move(progress));
    return {};
}

// The progress comes last: a trace that has it is whole.
void Tracing::keep_new_traces() {
    bool is_new = false;
    for (auto& [name, session] : sessions_) {
        if (session.parts.size() == session.session.traces().size() + session.ending_traces.size()) continue;
        for (const auto& [key, trace] : session.session.traces()) {
            auto made = new_progress_.extract(trace.get());
            if (made.empty()) continue;
            TracePart& part = session.parts[trace.get()];
            part.id = next_id_++;
            part.progress = std::move(made.mapped());
            is_new = true;
            if (parameters_.keeper == nullptr) continue;
            std::vector<int> memory = trace->memory();
            memory.push_back(part.progress->fd());
            for (std::size_t i = 0; i < memory.size(); ++i)
                parameters_.keeper->put(kept_name(part.id, std::to_string(i)), memory[i]);
        }
    }
    if (is_new) keep();
}

void Tracing::keep() {
    if (parameters_.keeper == nullptr) return drop_obsolete();
    std::string state = kept_state(*this).dump(-1, ' ', false, json::error_handler_t::replace);
    if (state == kept_state_) return drop_obsolete();
    auto memory = memory_of(state);
    // What was asked for is about to be acknowledged.
    if (!memory && spare_.is_open()) {
        spare_ = UniqueFd();
        memory = memory_of(state);
    }
    if (!memory) return log_error("the state is not kept: {}", memory.error().message);
    show_whether_kept();
    // A keeper that holds nothing ends with its daemon.
    if (sessions_.empty())
        parameters_.keeper->drop(kStateName);
    else
        parameters_.keeper->put(kStateName, memory->get());
    memory->reset();
    if (!spare_.is_open()) spare_ = UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    kept_state_ = std::move(state);
    drop_obsolete();
}

// Once the state is kept without it: a daemon that goes on with a trace whose files are half gone would lose it.
void Tracing::drop_obsolete() {
    for (const std::string& name : std::exchange(obsolete_, {}))
        if (parameters_.keeper != nullptr) parameters_.keeper->drop(name);
    // Programs have it mapped, and keep it for as long as they do not attach many other channels.
    for (const UniqueFd& rings : std::exchange(obsolete_rings_, {})) ring::RingSet::give_back(rings.get());
    for (session::MemoryDirectory& files : obsolete_files_) files.remove();
    obsolete_files_.clear();
}

// So that the next daemon can tell if they were lost with the keeper.
void Tracing::show_whether_kept() {
    if (!parameters_.place->is_ours()) return;
    const std::string path = parameters_.place->path_of(wire::kSessionsName);
    if (sessions_.empty())
        ::unlink(path.c_str());
    else
        (void)UniqueFd(::open(path.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
}

Result<void> Tracing::adopt(Keeper::Kept kept) {
    const auto found = kept.find(kStateName);
    if (found == kept.end() && ::access((parameters_.place->path_of(wire::kSessionsName)).c_str(), F_OK) == 0) {
        log_error("the sessions of the daemon before are lost, because its keeper has ended");
        show_whether_kept();
    }
    const auto state = found == kept.end() ? json::object() : read_state(found->second.get());
    if (is_disk_full(state)) return parameters_.keeper->has_no_room(state.error().message);
    if (!state) log_error("the sessions of the daemon before are lost: its state: {}", state.error().message);
    for (const auto& [name, fd] : kept) {
        next_id_ = std::max(next_id_, number_of(name) + 1);
    }
    if (state && !state->empty()) LEAT_TRY(adopt_state(*state, kept));
    drop_unadopted(kept);
    return {};
}

// What nobody has taken was about to be dropped, or is of a session that was not made yet. What was taken for a session
// or a trace that is lost goes, too: as long as the keeper has files of a trace, nobody can recover them.
void Tracing::drop_unadopted(const Keeper::Kept& kept) {
    std::set<std::uint64_t> going_on;
    for (const auto& [name, session] : sessions_) {
        going_on.insert(session.id);
        for (const auto& [trace, part] : session.parts) going_on.insert(part.id);
    }
    for (const auto& [name, fd] : kept)
        if (name != kStateName && (fd.is_open() || !going_on.contains(number_of(name)))) parameters_.keeper->drop(name);
}

// What a daemon of this version has written; if not, what can be read of it. An error: there is no room for it, and the
// keeper is to go on with all of it.
Result<void> Tracing::adopt_state(const json& state, Keeper::Kept& kept) try {
    for (const json& described : state.value("sessions", json::array())) {
        const std::string name = described.value("definition", json::object()).value("name", "?");
        const auto adopted = adopt_session(described, kept);
        if (is_disk_full(adopted))
            return parameters_.keeper->has_no_room(fmt::format("session {}: {}", name, adopted.error().message));
        has_adopted_ = true;
        if (adopted)
            log_info("session {} goes on", name);
        else
            log_error("session {} is lost: {}", name, adopted.error().message);
    }
    for (const json& current : state.value("current", json::array()))
        current_[current.value("uid", uid_t{})] = current.value("session", "");
    for (const json& counted : state.value("counted", json::array()))
        counted_before_[{.device = counted.value("device", dev_t{}),
                         .inode = counted.value("inode", ino_t{}),
                         .number = counted.value("number", std::uint64_t{})}] = {
            counted.value("pid", pid_t{}), counted.value("not_attached", std::uint64_t{})};
    return {};
} catch (const json::exception& error) {
    log_error("the state of the daemon before is not understood: {}", error.what());
    return {};
}

Result<void> Tracing::adopt_session(const json& described, Keeper::Kept& kept) try {
    Members members(described.at("definition"), "the definition");
    Definition definition = LEAT_TRY(read_definition(members));
    const auto id = described.at("id").get<std::uint64_t>();
    const auto chunks = kept.find(kept_name(id, "chunks"));
    if (chunks == kept.end()) return not_found("its journal of chunks is not there");
    Place place = place_from(described.at("place"));
    Journal journal = LEAT_TRY(Journal::adopt(std::move(chunks->second)));
    const Before before{.bytes = LEAT_TRY(stored_bytes(described, kept)),
                        .stopped_by = stopped_by_from(described.at("stopped_by"))};
    DaemonSession* const session =
        LEAT_TRY(add(std::move(definition), std::move(place), id, std::move(journal), before));
    session->is_made = true;
    session->directory = described.value("made", std::string());
    if (const auto stops_at = described.at("stops_at").get<std::int64_t>(); stops_at != 0)
        session->stops_at = std::chrono::steady_clock::time_point(std::chrono::nanoseconds(stops_at));
    session->was_started = described.at("was_started").get<bool>();
    session->is_rotated = described.at("is_rotated").get<bool>();
    session->ended = figures_from(described.at("ended"));
    session->not_attached = described.at("not_attached").get<std::map<std::string, std::uint64_t>>();
    // Before traces of processes that are gone end.
    if (described.value("snapshot_wanted", false)) ask_for_snapshot(*session);
    for (const json& trace : described.at("traces")) {
        auto adopted = adopt_trace(*session, trace, kept);
        if (is_disk_full(adopted)) return adopted;
        if (!adopted) log_error("session {}: a trace is lost: {}", session->session.name(), adopted.error().message);
    }
    return {};
} catch (const json::exception& error) {
    return corrupt("{}", error.what());
}

Result<void> Tracing::adopt_trace(DaemonSession& session, const json& described, Keeper::Kept& kept) {
    host::KnownTrace known = host::trace_from(described);
    const auto id = described.at("id").get<std::uint64_t>();
    known.parameters.memory_directory = session.place.memory;
    known.parameters.session_name = session.session.name();
    known.parameters.lane = lane();
    known.parameters.budget = &budgets_[known.parameters.key.uid];
    const auto& channels = session.session.channels();
    known.parameters.claim = ring_memory_.claim_anyway(known.parameters.key.uid, session::Trace::ring_memory(channels),
                                                       session::Trace::cpu_rings(channels));
    std::vector<UniqueFd> memory = take_memory(kept, id);
    if (memory.empty()) return not_found("its memory is not there");
    UniqueFd progress_memory = std::move(memory.back());
    memory.pop_back();
    auto trace = LEAT_TRY(session::Trace::adopt(known.parameters, channels, known.shape, std::move(memory)));
    auto progress = LEAT_TRY(consumer::Progress::adopt(std::move(progress_memory), trace->ring_counts()));
    TracePart& part = session.parts[trace.get()];
    part = {.id = id, .progress = std::make_unique<consumer::Progress>(std::move(progress))};
    auto ending = session.session.add_trace(std::move(trace));
    if (ending == nullptr) return {};
    part.is_told = true;
    session.thread->add(*ending, part.progress.get());
    end_trace(session, std::move(ending));
    return {};
}

}  // namespace leat::sessiond
