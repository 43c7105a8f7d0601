#include "sessiond/tracing.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <thread>
#include <utility>
#include <variant>

#include "base/descriptors.hpp"
#include "base/log.hpp"
#include "base/pid_namespace.hpp"
#include "host/answering.hpp"
#include "sessiond/handover.hpp"
#include "sessiond/kept_state.hpp"
#include "sessiond/program_log.hpp"
#include "sessiond/session_figures.hpp"
#include "wire/app/runtime_layout.hpp"

namespace leat::sessiond {
namespace {

using namespace std::chrono_literals;

// How long we wait for children of fork() to finish their files, before something counts as switched off. It takes them
// some 50 us; one that is stopped meanwhile is switched off when it goes on.
constexpr auto kUnfinishedPatience = 1s;
constexpr auto kUnfinishedPause = 500us;
// How long we do not wait for a user's again, after a wait in vain: programs of others wait for us meanwhile.
constexpr auto kUnfinishedRest = 60s;

// What belongs to a session in the keeper, beside its traces.
constexpr char kChunks[] = "chunks";

// Of one change.
constexpr std::size_t kMaxWarnings = 100;

// What a trace has open, but for the rings of each channel and the files of streams.
constexpr std::size_t kDescriptorsOfTrace = 11;

// What the tracepoints of a program with sticky events are to do now, and did not do before, by number.
std::map<std::uint32_t, std::vector<wire::Action>> added_orders(const TracedFile& file,
                                                                const std::vector<std::vector<wire::Action>>& before,
                                                                const std::vector<std::vector<wire::Action>>& now) {
    std::map<std::uint32_t, std::vector<wire::Action>> added;
    if (file.control.layout().sticky_slots == 0) return added;
    for (std::uint32_t i = 0; i < now.size(); ++i)
        for (const wire::Action& action : now[i])
            if (i >= before.size() || std::ranges::find(before[i], action) == before[i].end())
                added[i].push_back(action);
    return added;
}

// The number of the channel that gets all events that the program could not write: it counts them together. One without
// rings has most of them; else it is the first that the file's tracepoints go to. 0: there is none.
std::uint32_t counting_channel(const TracedFile& file) {
    std::uint32_t first = 0;
    for (const auto& actions : file.orders) {
        for (const wire::Action& action : actions) {
            if (action.event_id == wire::kNotEnabled) return action.channel;
            if (first == 0) first = action.channel;
        }
        if (first != 0 && !file.is_waiting) break;
    }
    return first;
}

// Programs look at the write lock, which nobody else can take; those of former versions, or in a sandbox that does not
// know such locks, at the other one.
bool lock_active(int fd) {
    struct flock all {};
    all.l_type = F_WRLCK;
    all.l_whence = SEEK_SET;
    const bool is_locked = ::fcntl(fd, F_OFD_SETLK, &all) == 0 || errno == EINVAL;
    return ::flock(fd, LOCK_EX | LOCK_NB) == 0 && is_locked;
}

// Of a program that is gone: it has neither said that it ends nor become another one, which would have memory. Anybody
// may see how much that is; what it runs, only who may trace it. In another container its pid names nothing here:
// there, one that becomes another program counts, too.
bool has_crashed(const TracedFile& file) {
    if (file.control.has_ended()) return false;
    const std::uint32_t its_namespace = file.application.pid_namespace;
    if (its_namespace != 0 && its_namespace != own_pid_namespace()) return true;
    const std::string name = fmt::format("/proc/{}/statm", file.application.pid);
    std::uint64_t pages = 0;
    if (std::ifstream(name) >> pages) return pages == 0;
    return ::access(name.c_str(), F_OK) != 0 && errno == ENOENT;
}

// Whether the file's program has events that go to a channel of the session.
bool records(const session::Session& session, const TracedFile& file) {
    return std::ranges::any_of(file.orders, [&session](const std::vector<wire::Action>& actions) {
        return std::ranges::any_of(actions, [&session](const wire::Action& action) {
            return session.find_channel(action.channel) != nullptr;
        });
    });
}

}  // namespace

Result<std::unique_ptr<Tracing>> Tracing::create(const Parameters& parameters) {
    const Places& places = parameters.place->where();
    auto directories = LEAT_TRY(
        AppDirectories::open(places.app_parent, places.only, [place = parameters.place] { return place->is_ours(); }));
    return std::unique_ptr<Tracing>(new Tracing(parameters, std::move(directories)));
}

void Tracing::sweep() {
    AppDirectories::News news = directories_->sweep();
    for (const auto& [id, uid] : applications_.with_room_again())
        if (auto found = directories_->open_again(id, uid)) news.found.push_back(*std::move(found));
    handle(std::move(news));
}

void Tracing::handle(AppDirectories::News news) {
    const bool is_first_look = !std::exchange(has_looked_, true);
    const bool had_seen_all = has_seen_all_;
    std::vector<TracedFile*> files;
    for (AppDirectories::Found& found : news.found) {
        const uid_t uid = found.uid;
        const FileId id = found.id;
        const auto file = applications_.add(std::move(found));
        if (!file) {
            // Of many that the user's budget has no room for, the first is enough.
            if (applications_.is_over_budget(id) && !applications_.take_untold(uid)) continue;
            the_program_log().warn(uid,
                                   fmt::format("a program of user {} is not traced: {}", uid, file.error().message));
            continue;
        }
        const auto before = counted_before_.find(id);
        if (before != counted_before_.end() && before->second.pid == (*file)->application.pid)
            (*file)->not_attached = before->second.count;
        else if (is_first_look && !has_adopted_)  // what it has counted so far, it did for sessions that are gone
            (void)Applications::take_not_attached(**file);
        const session::Application& application = (*file)->application;
        log_debug("{} ({}) of user {}: {} tracepoints", application.procname, application.pid, uid,
                  application.tracepoints->size());
        files.push_back(*file);
    }
    const std::vector<TracedFile*> successors = take_successors(files, news.gone);
    (void)order(files);
    // Before a crash is noted: that has sticky values recorded again, also in these.
    start_new_traces();
    bool has_noted = false;
    for (const FileId& id : news.gone) {
        TracedFile* const file = applications_.find(id);
        if (file == nullptr) applications_.remove(id);
        if (file == nullptr || goes_on(id, *file)) continue;
        if (has_crashed(*file)) has_noted |= note_crash(*file);
        // Also what was counted before, when nothing had to be kept: the file goes.
        has_noted |= count_not_attached(*file) || file->not_attached != 0;
        // As long as the file is there, who comes after us must know what of it was counted.
        counted_before_.insert_or_assign(id, KnownCount{file->application.pid, file->not_attached});
        applications_.remove(id);
    }
    if (has_noted) keep();
    directories_->remove_dead();
    for (const FileId& id : news.gone) counted_before_.erase(id);
    // Before the first look, processes may have ended that the daemon before us had traced. But those that could not be
    // looked at may live.
    has_seen_all_ = has_seen_all_ || (news.is_of_all && !news.is_incomplete);
    if (has_seen_all_ && (!news.gone.empty() || is_first_look || !had_seen_all))
        end_traces_of_dead_processes(successors);
    if (successors.empty()) return;
    (void)order(successors);
    start_new_traces();
}

// A program that has become another one (exec) since the last look has a trace of its own to end first: the other's
// events may be others of the same names. Others go on with the rings of theirs, as children do.
std::vector<TracedFile*> Tracing::take_successors(std::vector<TracedFile*>& found, const std::vector<FileId>& gone) {
    std::set<session::ProcessKey> ended;
    std::set<const TracedFile*> files_gone;
    for (const FileId& id : gone) {
        const TracedFile* const file = applications_.find(id);
        files_gone.insert(file);
        if (file != nullptr && !file->control.is_in_use()) ended.insert(file->application.process());
    }
    const auto is_none = [&](const TracedFile* file) {
        return files_gone.contains(file) || !ended.contains(file->application.process());
    };
    const auto successors = std::ranges::stable_partition(found, is_none);
    std::vector<TracedFile*> taken(successors.begin(), successors.end());
    found.erase(successors.begin(), successors.end());
    return taken;
}

// Whether the program of a file that has lost its name is there, and records. One that ends removes its file as well,
// and says so before, but a child that shares the file may go on; one that becomes another user's has the new one in a
// moment.
bool Tracing::goes_on(const FileId& id, TracedFile& file) {
    // It may end before it is watched.
    if (!directories_->follow(id, file.application.uid, file.control.fd()) || !file.control.is_in_use()) {
        directories_->unfollow(id);
        return false;
    }
    if (!file.control.has_ended() && ++file.looks_without_name == 2)
        the_program_log().warn(
            file.application.uid,
            fmt::format("somebody has removed the control file of {}, which runs: only this daemon still traces it",
                        file.application.name()));
    return true;
}

// Before its trace ends, if it has one of its own. Returns whether anybody wants to know.
bool Tracing::note_crash(const TracedFile& file) {
    bool is_wanted = false;
    for (auto& [name, session] : sessions_) {
        if (!session.session.is_for_snapshots() || session.is_ending || !records(session.session, file)) continue;
        log_info("session {}: {} has crashed: a snapshot is due", name, file.application.name());
        // When it is taken, nobody knows the program any more.
        if (session.session.is_active()) replay_sticky_values(session, file);
        ask_for_snapshot(session);
        is_wanted = true;
    }
    return is_wanted;
}

// The state tells the next daemon of it until the session's own journal does.
void Tracing::ask_for_snapshot(DaemonSession& session) {
    ++session.snapshots_asked;
    session.thread->ask_for_snapshot([this, name = session.session.name(), id = session.id] {
        DaemonSession* const of = find(name);
        if (of == nullptr || of->id != id) return;
        --of->snapshots_asked;
        keep();
    });
}

void Tracing::take_snapshot_of(const std::string& name, std::uint64_t id) {
    DaemonSession* const session = find(name);
    if (session == nullptr || session->id != id || session->is_ending) return;
    if (session->session.is_active()) replay_sticky_values(*session);
    session->thread->take_wanted_snapshot();
}

// Snapshots that are taken later cannot ask programs that are switched off for their values.
void Tracing::stop_recording(DaemonSession& session) {
    if (session.session.is_for_snapshots() && session.session.is_active()) replay_sticky_values(session);
    deactivate(session);
}

void Tracing::take_snapshot(DaemonSession& session, host::SnapshotOrder order, SessionThread::Snapped done) {
    if (session.session.is_active()) replay_sticky_values(session);
    session.thread->snapshot(std::move(order), std::move(done));
}

// A process has several files if it has loaded libraries. Those of `others` are of programs that have taken its place.
void Tracing::end_traces_of_dead_processes(const std::vector<TracedFile*>& others) {
    for (auto& [name, session] : sessions_) {
        if (session.session.buffers() != session::Session::Buffers::kPid) continue;
        std::set<session::RegistryKey> ended;
        for (const auto& [key, trace] : session.session.traces()) ended.insert(key);
        for (const auto& [id, file] : applications_.files())
            if (std::ranges::find(others, &file) == others.end()) ended.erase(session.session.key_of(file.application));
        for (const session::RegistryKey& key : ended) end_trace(session, session.session.take_trace(key));
    }
}

void Tracing::end_trace(DaemonSession& session, std::unique_ptr<session::Trace> trace) {
    const auto& ending = session.ending_traces.emplace_back(std::move(trace));
    session.thread->end(*ending, [this, name = session.session.name(), &ended = *ending](const std::string& trouble) {
        DaemonSession* const of = find(name);
        if (of == nullptr) return;
        if (!trouble.empty()) log_error("session {}: {}", name, trouble);
        const SessionThread::Figures figures = of->thread->take_figures(ended);
        for (std::size_t i = 0; i < ended.channels().size(); ++i)
            of->ended[ended.channels()[i]->name()].add(figures_of(*ended.channels()[i], figures, i));
        forget(*of, ended, trouble.empty());
        std::erase_if(of->ending_traces, [&ended](const auto& known) { return known.get() == &ended; });
        keep();
    });
}

// The next daemon must know of rings before a program writes into them: so all new traces are kept in between.
std::vector<std::string> Tracing::order(const std::vector<TracedFile*>& files) {
    std::vector<std::string> warnings;
    const auto warn = [&warnings](const TracedFile& file, std::string warning) {
        the_program_log().warn(file.application.uid, warning);
        if (warnings.size() < kMaxWarnings) warnings.push_back(std::move(warning));
    };
    // A tracepoint has room for some actions only: who came first has them, also in a program that begins later.
    std::vector<DaemonSession*> by_age;
    by_age.reserve(sessions_.size());
    for (auto& [name, session] : sessions_) by_age.push_back(&session);
    std::ranges::sort(by_age, {}, &DaemonSession::id);
    std::vector<session::Orders> all;
    for (const TracedFile* const file : files) {
        session::Orders& orders = all.emplace_back(file->orders);
        for (DaemonSession* const session : by_age) session->session.add_orders(file->application, orders);
        for (std::string& warning : orders.warnings) warn(*file, std::move(warning));
    }
    keep_new_traces();
    for (std::size_t i = 0; i < files.size(); ++i) {
        count_not_attached(*files[i]);
        files[i]->is_waiting = all[i].is_waiting;
        Added added = added_orders(*files[i], files[i]->orders, all[i].actions);
        if (const auto done = Applications::carry_out(*files[i], std::move(all[i])); !done) {
            warn(*files[i], fmt::format("{}: {}", files[i]->application.name(), done.error().message));
            std::erase_if(added, [&orders = files[i]->orders](const auto& of_tracepoint) {
                return std::ranges::find(orders[of_tracepoint.first], of_tracepoint.second.front()) ==
                       orders[of_tracepoint.first].end();
            });
        }
        plan_replays(*files[i], added);
    }
    return warnings;
}

void Tracing::order_waiting() {
    std::vector<TracedFile*> files;
    for (auto& [id, file] : applications_.files())
        if (file.is_waiting) files.push_back(&file);
    (void)order(files);
    start_new_traces();
}

std::vector<std::string> Tracing::order_all() {
    leave_programs_of_another();
    show_whether_active();
    look();
    std::vector<TracedFile*> files;
    for (auto& [id, file] : applications_.files()) files.push_back(&file);
    std::vector<std::string> warnings = order(files);
    start_new_traces();
    return warnings;
}

// docs/formats/runtime-directory.md, "Children".
std::vector<std::string> Tracing::order_all_at_once() {
    std::vector<std::string> warnings = order_all();
    await_unfinished();
    look();
    return warnings;
}

// For each file once, whatever it is called: a process that is stopped may never finish it. A user who had such files
// at each look of a vain wait twice in a minute makes them on and on, and is not waited for for a minute.
void Tracing::await_unfinished() {
    const auto begin = std::chrono::steady_clock::now();
    std::erase_if(not_awaited_until_, [begin](const auto& user) { return user.second <= begin; });
    std::erase_if(waited_in_vain_, [begin](const auto& user) { return user.second + kUnfinishedRest <= begin; });
    std::set<AppDirectories::Unfinished> unfinished = directories_->unfinished();
    std::set<uid_t> always = users_awaited(unfinished);
    while (!users_awaited(unfinished).empty()) {
        if (std::chrono::steady_clock::now() - begin >= kUnfinishedPatience) {
            for (const uid_t uid : always)
                if (!waited_in_vain_.insert_or_assign(uid, begin).second)
                    not_awaited_until_[uid] = begin + kUnfinishedRest;
            break;
        }
        std::this_thread::sleep_for(kUnfinishedPause);
        unfinished = directories_->unfinished();
        std::erase_if(always, [awaited = users_awaited(unfinished)](uid_t uid) { return !awaited.contains(uid); });
    }
    given_up_ = std::move(unfinished);
}

std::set<uid_t> Tracing::users_awaited(const std::set<AppDirectories::Unfinished>& unfinished) const {
    std::set<uid_t> users;
    for (const auto& file : unfinished)
        if (!given_up_.contains(file) && !not_awaited_until_.contains(file.uid)) users.insert(file.uid);
    return users;
}

void Tracing::start_new_traces() {
    for (auto& [name, session] : sessions_) {
        for (const auto& [key, trace] : session.session.traces()) {
            TracePart& part = session.parts[trace.get()];
            if (!std::exchange(part.is_told, true)) session.thread->add(*trace, part.progress.get());
        }
    }
    begin_replays();
}

void Tracing::plan_replays(const TracedFile& file, const Added& added, const DaemonSession* of) {
    for (auto& [name, session] : sessions_) {
        if (of != nullptr && of != &session) continue;
        Added orders;
        for (const auto& [tracepoint, actions] : added)
            for (const wire::Action& action : actions)
                if (session.session.find_channel(action.channel) != nullptr) orders[tracepoint].push_back(action);
        const auto trace = session.session.traces().find(session.session.key_of(file.application));
        if (orders.empty() || trace == session.session.traces().end()) continue;
        replays_.push_back({.session = &session,
                            .trace = trace->second.get(),
                            .program = {.control = duplicate(file.control.fd()),
                                        .layout = file.control.layout(),
                                        .name = file.application.name(),
                                        .vpid = file.application.vpid,
                                        .procname = file.application.procname,
                                        .orders = std::move(orders)}});
    }
}

void Tracing::begin_replays() {
    for (Replay& replay : std::exchange(replays_, {}))
        replay.session->thread->replay(*replay.trace, std::move(replay.program));
}

void Tracing::replay_sticky_values(DaemonSession& session) {
    for (const auto& [id, file] : applications_.files()) replay_sticky_values(session, file);
}

void Tracing::replay_sticky_values(DaemonSession& session, const TracedFile& file) {
    plan_replays(file, added_orders(file, {}, file.orders), &session);
    begin_replays();
}

// As long as nobody has wanted its events, they wait. Those that it counts after it was switched off, or while that is
// done, are still of the channel that they were for. Returns whether there were any.
bool Tracing::count_not_attached(TracedFile& file) {
    if (const std::uint32_t now = counting_channel(file); now != 0) file.counted_for = now;
    if (file.counted_for == 0) return false;
    for (auto& [name, session] : sessions_) {
        const std::string* const channel = session.session.find_channel_name(file.counted_for);
        if (channel == nullptr) continue;
        const std::uint64_t count = Applications::take_not_attached(file);
        if (count == 0) return false;
        session.not_attached[*channel] += count;
        return true;
    }
    return false;
}

void Tracing::count_not_attached() {
    for (auto& [id, file] : applications_.files()) count_not_attached(file);
}

// Programs that start wait for us only while the file is there and locked.
void Tracing::show_whether_active() {
    const bool is_active =
        std::ranges::any_of(sessions_, [](const auto& entry) { return entry.second.session.is_active(); });
    if (is_active == active_.is_open() || !parameters_.place->is_ours()) return;
    const std::string path = parameters_.place->path_of(wire::kActiveName);
    if (!is_active) {
        ::unlink(path.c_str());
        active_.reset();
        if (parameters_.keeper != nullptr) parameters_.keeper->drop(Keeper::kActive);
        return;
    }
    // Locked before it is seen: programs of former versions look whether it is by trying to lock it themselves.
    const std::string hidden = path + ".new";
    ::unlink(hidden.c_str());
    active_ = UniqueFd(::open(hidden.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (!active_.is_open() || ::fchmod(active_.get(), 0644) != 0 || !lock_active(active_.get()) ||
        ::rename(hidden.c_str(), path.c_str()) != 0)
        return log_warning("cannot tell programs that start that a session is active: {}", path);
    keep_active();
}

void Tracing::take_over_active(UniqueFd active) {
    active_ = std::move(active);
    if (active_.is_open()) (void)lock_active(active_.get());
    show_answering();
}

void Tracing::keep_active() const {
    if (parameters_.keeper != nullptr && active_.is_open()) parameters_.keeper->put(Keeper::kActive, active_.get());
}

UniqueFd Tracing::hand_over_active() { return std::move(active_); }

void Tracing::show_anew() {
    show_marks_anew();
    find_programs_anew();
}

void Tracing::show_marks_anew() {
    active_.reset();
    show_whether_active();
    show_whether_kept();
}

void Tracing::keep_shown() {
    show_whether_active();
    const bool is_shown = !active_.is_open() || is_locked_file(active_, parameters_.place->path_of(wire::kActiveName));
    if (!is_shown) show_marks_anew();
    if (!has_found_anew_) find_programs_anew();
}

// Those that another daemon finds are its own to switch.
void Tracing::leave_programs_of_another() {
    const auto owner = parameters_.place->owner();
    if (!owner || *owner != DaemonPlace::Owner::kAnother) return;
    for (const auto& [id, uid] : directories_->named()) forget(id);
}

// What they were told last is not known any more. For want of descriptors, some are found later.
void Tracing::find_programs_anew() {
    AppDirectories::News again;
    has_found_anew_ = true;
    for (const auto& [id, uid] : directories_->named()) {
        if (auto found = directories_->open_again(id, uid)) {
            forget(id);
            again.found.push_back(*std::move(found));
        } else if (are_descriptors_scarce()) {
            has_found_anew_ = false;
        }
    }
    handle(std::move(again));
}

// For now: what it has counted is known when it is found again.
void Tracing::forget(const FileId& id) {
    if (const TracedFile* const file = applications_.find(id))
        counted_before_.insert_or_assign(id, KnownCount{file->application.pid, file->not_attached});
    applications_.remove(id);
}

// Programs that start wait again for a daemon that was deaf for a while: it is not any more.
void Tracing::show_answering() const {
    if (active_.is_open()) (void)::futimens(active_.get(), nullptr);
}

TracedFile* Tracing::find_file(const wire::RegisteredFile& registered) {
    const auto id = directories_->find(registered.uid, registered.file);
    return id ? applications_.find(*id) : nullptr;
}

Result<void> Tracing::answer(wire::AppConnection& connection) {
    auto message = LEAT_TRY(connection.receive(lane()));
    if (const auto* const request = std::get_if<wire::AttachRequest>(&message))
        return send_channel(connection, *request);
    const auto& registered = std::get<wire::RegisteredFile>(message);
    const TracedFile* file = find_file(registered);
    if (file == nullptr) {
        look();
        file = find_file(registered);
    }
    if (file == nullptr) {
        handle(directories_->look_at(registered.uid));
        file = find_file(registered);
    }
    if (file == nullptr && are_descriptors_scarce()) {
        log_want_of_descriptors("programs are not traced");
        return connection.send_done();
    }
    if (file == nullptr)
        return refused("control file {:016x} is not in the directory of user {}", registered.file, registered.uid);
    std::set<const session::TraceChannel*> channels;
    for (const auto& actions : file->orders)
        for (const wire::Action& action : actions) channels.insert(find_channel(action.channel, registered.uid));
    channels.erase(nullptr);
    LEAT_TRY(host::send_channels(connection, std::vector(channels.begin(), channels.end())));
    return connection.send_done();
}

// Rings are for programs of the user whose events are in them.
Result<void> Tracing::send_channel(wire::AppConnection& connection, const wire::AttachRequest& request) {
    const session::TraceChannel* const channel = find_channel(request.channel, request.uid);
    if (channel == nullptr) return {};
    return host::send_channels(connection, std::array{channel});
}

const session::TraceChannel* Tracing::find_channel(std::uint32_t number, uid_t uid) const {
    for (const auto& [name, session] : sessions_) {
        const session::Trace* trace = nullptr;
        const session::TraceChannel* const channel = session.session.find_channel(number, &trace);
        if (channel != nullptr && trace->key().uid == uid) return channel;
    }
    return nullptr;
}

Result<DaemonSession*> Tracing::add(Definition definition, Place place) {
    Journal chunks = LEAT_TRY(Journal::create("leat-chunks"));
    const std::uint64_t id = next_id_++;
    auto added = add(std::move(definition), std::move(place), id, std::move(chunks), {});
    // One that is adopted stays with the keeper: the next daemon may have what this one lacks.
    if (!added && parameters_.keeper != nullptr) parameters_.keeper->drop(kept_name(id, kChunks));
    return added;
}

Result<DaemonSession*> Tracing::add(Definition definition, Place place, std::uint64_t id, Journal chunks,
                                    const Before& before) {
    const std::string name = definition.parameters.name;
    if (parameters_.keeper != nullptr) parameters_.keeper->put(kept_name(id, kChunks), chunks.fd());
    auto started = SessionThread::start({.session = name,
                                         .destination = place.destination,
                                         .owner = place.owner,
                                         .chunks = std::move(chunks),
                                         .max_size = definition.limits.max_size,
                                         .bytes = before.bytes,
                                         .is_full = before.stopped_by == session::StoppedBy::kMaxSize,
                                         .when_full = [this, name, id] { stop_full(name, id); },
                                         .when_snapshot_wanted = [this, name, id] { take_snapshot_of(name, id); },
                                         .daemon = parameters_.mailbox});
    if (!started) return tl::unexpected(std::move(started).error());
    auto thread = *std::move(started);
    definition.parameters.lane = lane();
    definition.parameters.is_kept = parameters_.keeper != nullptr || !place.memory.empty();
    definition.parameters.memory_directory = place.memory;
    if (definition.parameters.is_kept)
        definition.parameters.complete = [this, destination = place.destination](session::Trace& trace) {
            return complete(trace, destination);
        };
    definition.parameters.budgets = &budgets_;
    definition.parameters.admit = [this](const session::RegistryKey& key, std::span<const session::Channel> channels) {
        return admit(key, channels);
    };
    DaemonSession& session =
        sessions_
            .emplace(name, DaemonSession{.session = session::Session(std::move(definition.parameters)),
                                         .place = std::move(place),
                                         .id = id,
                                         .limits = definition.limits,
                                         .stopped_by = before.stopped_by})
            .first->second;
    session.session.tracked() = std::move(definition.tracked);
    session.session.set_active(definition.is_active);
    session.thread = std::move(thread);
    return &session;
}

// The channel of the events that ask for snapshots has the clock of the others: so it comes when these are known.
void Tracing::activate(DaemonSession& session) {
    auto& channels = session.session.channels();
    if (!session.session.snapshot_on().empty() && !channels.empty() &&
        std::ranges::none_of(channels, &session::Channel::is_trigger))
        channels.push_back(session::trigger_channel(session.session.snapshot_on(), channels.front()));
    session.stopped_by = session::StoppedBy::kNobody;
    if (session.limits.duration_us != 0)
        session.stops_at = std::chrono::steady_clock::now() + std::chrono::microseconds(session.limits.duration_us);
    session.session.set_active(true);
}

void Tracing::deactivate(DaemonSession& session) {
    session.stops_at.reset();
    session.session.set_active(false);
}

std::chrono::steady_clock::time_point Tracing::next_stop() const {
    auto next = std::chrono::steady_clock::time_point::max();
    for (const auto& [name, session] : sessions_)
        if (session.stops_at) next = std::min(next, *session.stops_at);
    return next;
}

void Tracing::stop_due() {
    const auto now = std::chrono::steady_clock::now();
    std::vector<DaemonSession*> due;
    for (auto& [name, session] : sessions_)
        if (session.stops_at && *session.stops_at <= now) due.push_back(&session);
    stop_by_limit(due, session::StoppedBy::kDuration);
}

// Another session may have got the name meanwhile.
void Tracing::stop_full(const std::string& name, std::uint64_t id) {
    DaemonSession* const session = find(name);
    if (session != nullptr && session->id == id) stop_by_limit({session}, session::StoppedBy::kMaxSize);
}

// As the verb does: switched off first, then stored. One that was stopped, or is being destroyed, may have become full
// by that. If we are killed in between, the session is due in the next daemon, or does not get beyond its size there.
void Tracing::stop_by_limit(const std::vector<DaemonSession*>& sessions, session::StoppedBy by) {
    bool is_any_active = false;
    for (DaemonSession* const session : sessions) {
        session->stopped_by = by;
        is_any_active |= session->session.is_active();
        stop_recording(*session);
    }
    if (is_any_active) (void)order_all_at_once();
    if (!sessions.empty()) keep();
    for (DaemonSession* const session : sessions) {
        const std::string& name = session->session.name();
        log_info("session {} stopped by its {}", name, session::name_of(by));
        if (session->is_ending) continue;
        session->thread->settle([this, name](const std::string& trouble) {
            count_not_attached();
            if (!trouble.empty()) log_error("session {}: {}: events stay in the rings", name, trouble);
        });
    }
}

Result<session::Trace::Claim> Tracing::admit(const session::RegistryKey& key,
                                             std::span<const session::Channel> channels) {
    if (!are_descriptors_scarce(kDescriptorsOfTrace + channels.size()))
        return ring_memory_.claim(key.uid, session::Trace::ring_memory(channels), session::Trace::cpu_rings(channels));
    log_want_of_descriptors("programs wait for rings");
    return refused("too many open files: raise the daemon's limit (RLIMIT_NOFILE: ulimit -n, LimitNOFILE of systemd)");
}

void Tracing::remove(const std::string& name, bool is_stored) {
    DaemonSession* const session = find(name);
    if (session == nullptr) return;
    for (const auto& [key, trace] : session->session.traces()) forget(*session, *trace, is_stored);
    for (const auto& trace : session->ending_traces) forget(*session, *trace, is_stored);
    const std::filesystem::path memory = std::move(session->place.memory);
    obsolete_.push_back(kept_name(session->id));
    sessions_.erase(name);
    // Of whoever else may get the name, nobody has chosen the session.
    std::erase_if(current_, [&name](const auto& current) { return current.second == name; });
    keep();
    if (!memory.empty()) session::MemoryDirectory::remove_of_session(memory);
}

void Tracing::forget(DaemonSession& session, session::Trace& trace, bool is_stored) {
    has_freed_ = true;
    new_progress_.erase(&trace);
    if (trace.files() == nullptr)
        for (const auto& channel : trace.channels()) obsolete_rings_.push_back(duplicate(channel->rings().fd()));
    else if (is_stored)
        obsolete_files_.push_back(std::move(*trace.files()));
    const auto part = session.parts.find(&trace);
    if (part == session.parts.end()) return;
    obsolete_.push_back(kept_name(part->second.id));
    session.parts.erase(part);
}

DaemonSession* Tracing::find(const std::string& name) {
    const auto found = sessions_.find(name);
    return found == sessions_.end() ? nullptr : &found->second;
}

}  // namespace leat::sessiond
