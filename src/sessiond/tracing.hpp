#pragma once

#include <chrono>
#include <list>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/journal.hpp"
#include "base/result.hpp"
#include "consumer/progress.hpp"
#include "host/destination.hpp"
#include "session/limits.hpp"
#include "session/session.hpp"
#include "sessiond/app_directories.hpp"
#include "sessiond/applications.hpp"
#include "sessiond/channel_figures.hpp"
#include "sessiond/daemon_place.hpp"
#include "sessiond/keeper.hpp"
#include "sessiond/mailbox.hpp"
#include "sessiond/ring_memory.hpp"
#include "sessiond/session_thread.hpp"
#include "wire/app/app_socket.hpp"

namespace leat::sessiond {

// What people want of a session, but for its place.
struct Definition {
    session::Session::Parameters parameters;
    session::Tracked tracked{};
    bool is_active = false;
    session::Limits limits{};
};

// Where a session goes.
struct Place {
    host::Destination destination;
    std::string url{};               // as the user gave it; empty: a directory
    std::optional<Owner> owner{};    // whose files it writes; none: the daemon's own user, or each user's
    std::filesystem::path memory{};  // where its rings are files; empty: they are not
};

// What belongs to a trace while it is recorded.
struct TracePart {
    std::uint64_t id = 0;  // of this daemon and those before it, which its keeper knows
    std::unique_ptr<consumer::Progress> progress{};
    bool is_told = false;  // the thread knows of it
};

// A session, and where it goes. Its traces outlive its thread, so it comes last.
struct DaemonSession {
    session::Session session;
    Place place;
    std::uint64_t id = 0;               // likewise
    bool was_started = false;           // channels and contexts are fixed then
    bool is_made = false;               // it is known that there is a place for it
    bool is_ending = false;             // it is being destroyed
    unsigned starts = 0;                // of this daemon
    bool is_rotated = false;            // and has not been started since
    bool is_rotating = false;           // it is stopped, and that is under way; likewise
    unsigned snapshots_asked = 0;       // of its thread, which has not kept that yet
    std::filesystem::path directory{};  // where it goes, by its own name, once it is made here
    session::Limits limits{};
    session::StoppedBy stopped_by = session::StoppedBy::kNobody;  // since it was active
    std::optional<std::chrono::steady_clock::time_point> stops_at{};
    std::map<const session::Trace*, TracePart> parts{};
    // Of processes that have ended, if each has a trace: they are being stored; and what there was in those that are.
    std::list<std::unique_ptr<session::Trace>> ending_traces{};
    std::map<std::string, ChannelFigures> ended{};        // by channel
    std::map<std::string, std::uint64_t> not_attached{};  // events, by channel
    std::unique_ptr<SessionThread> thread{};
};

// Events of a program that former daemons have counted as not attached.
struct KnownCount {
    pid_t pid;
    std::uint64_t count;
};

// What a daemon traces: the programs that are there, the sessions that want something of them, and what comes of that.
// One thread, which never waits for a program, a disk or a relay.
class Tracing {
  public:
    struct Parameters {
        // Ours. When it is not any more, nothing there is touched, and no new program is looked for: it may be another
        // daemon's.
        const DaemonPlace* place;
        Mailbox* mailbox;              // of our thread
        Keeper* keeper = nullptr;      // none: nothing survives us
        std::uint64_t max_memory = 0;  // bytes of all rings of CPUs; 0: no limit
    };
    // Looks at no program yet: see order_all().
    static Result<std::unique_ptr<Tracing>> create(const Parameters& parameters);
    // Goes on with what another daemon has left. Before anything else.
    Result<void> adopt(Keeper::Kept kept);

    // Readable when programs may have come or gone: then look().
    [[nodiscard]] int news_fd() const { return directories_->fd(); }
    void look() { handle(directories_->look()); }
    // Does without what the kernel should have told.
    // Asks again for programs that their users' budgets had no room for.
    void sweep();
    // A program that has just connected says what it wants.
    Result<void> answer(wire::AppConnection& connection);
    void show_answering() const;
    // The file that tells programs of an active session, of a daemon whose place we take; and for who takes ours. Not
    // open: there is none.
    void take_over_active(UniqueFd active);
    // The keeper holds it for a while when we are killed.
    void keep_active() const;
    [[nodiscard]] UniqueFd hand_over_active();
    // The directory was removed, and is ours again: whoever looks there is to find what was there, and another daemon
    // may have told the programs something else meanwhile.
    void show_anew();
    // Half of it may have been removed.
    void keep_shown();
    // From here on nothing survives us.
    void go_on_without_keeper() { parameters_.keeper = nullptr; }
    [[nodiscard]] Applications& applications() { return applications_; }

    // The name is new.
    Result<DaemonSession*> add(Definition definition, Place place);
    [[nodiscard]] DaemonSession* find(const std::string& name);
    // `is_stored`: all that its rings had is. Otherwise files that they are in stay, to be recovered.
    void remove(const std::string& name, bool is_stored);
    [[nodiscard]] std::map<std::string, DaemonSession>& sessions() { return sessions_; }
    [[nodiscard]] const std::map<std::string, DaemonSession>& sessions() const { return sessions_; }
    // The current session of each user who steers.
    [[nodiscard]] std::map<uid_t, std::string>& current() { return current_; }
    [[nodiscard]] const std::map<uid_t, std::string>& current() const { return current_; }
    [[nodiscard]] const Applications& applications() const { return applications_; }
    [[nodiscard]] const std::map<FileId, KnownCount>& counted_before() const { return counted_before_; }
    [[nodiscard]] wire::Lane lane() const { return parameters_.place->where().lane; }
    [[nodiscard]] Mailbox& mailbox() { return *parameters_.mailbox; }

    // The session records from now on, until somebody or a limit stops it; programs are told by order_all().
    static void activate(DaemonSession& session);
    static void deactivate(DaemonSession& session);
    // The same for one that others may yet take snapshots of: with the last values of sticky events.
    void stop_recording(DaemonSession& session);
    // Sessions that have a limit of time: when the first of them is to be stopped; and stops those that are.
    [[nodiscard]] std::chrono::steady_clock::time_point next_stop() const;
    void stop_due();

    // Tells all programs what they are to do, after something about a session has changed. Returns warnings for who
    // changed it.
    std::vector<std::string> order_all();
    // The same after something was switched off: when it returns, no program writes for it any more.
    std::vector<std::string> order_all_at_once();
    // Asks again for programs that wait for a trace, if there may be room for it now.
    void order_waiting();
    void order_waiting_if_freed() {
        if (std::exchange(has_freed_, false)) order_waiting();
    }

    // Stores what the rings of a session of snapshots hold, with the last values of sticky events.
    void take_snapshot(DaemonSession& session, host::SnapshotOrder order, SessionThread::Snapped done);

    // Records the last values of sticky events again, of all programs that the session records: a chunk has begun.
    void replay_sticky_values(DaemonSession& session);

    // Counts what programs could not write for want of rings into their sessions.
    void count_not_attached();

    // Whatever has changed: if this daemon is killed from here on, the next one goes on with it. Before anybody is told
    // of a change.
    void keep();

  private:
    explicit Tracing(const Parameters& parameters, std::unique_ptr<AppDirectories> directories)
        : parameters_(parameters),
          directories_(std::move(directories)),
          applications_(lane(), budgets_),
          ring_memory_({.bytes = parameters_.max_memory, .rings = RingMemory::rings_to_map()},
                       !parameters_.place->where().only) {}

    // What a session has had before this daemon.
    struct Before {
        std::uint64_t bytes = 0;  // of packets
        session::StoppedBy stopped_by = session::StoppedBy::kNobody;
    };
    Result<DaemonSession*> add(Definition definition, Place place, std::uint64_t id, Journal chunks,
                               const Before& before);
    void stop_by_limit(const std::vector<DaemonSession*>& sessions, session::StoppedBy by);
    void stop_full(const std::string& name, std::uint64_t id);
    void take_snapshot_of(const std::string& name, std::uint64_t id);
    bool note_crash(const TracedFile& file);
    void ask_for_snapshot(DaemonSession& session);
    Result<session::Trace::Claim> admit(const session::RegistryKey& key, std::span<const session::Channel> channels);
    Result<void> adopt_state(const nlohmann::json& state, Keeper::Kept& kept);
    Result<void> adopt_session(const nlohmann::json& described, Keeper::Kept& kept);
    void drop_unadopted(const Keeper::Kept& kept);
    Result<void> adopt_trace(DaemonSession& session, const nlohmann::json& described, Keeper::Kept& kept);
    Result<void> complete(session::Trace& trace, const host::Destination& destination);
    void keep_new_traces();
    void show_whether_kept();
    void drop_obsolete();
    void forget(DaemonSession& session, session::Trace& trace, bool is_stored);
    void handle(AppDirectories::News news);
    bool goes_on(const FileId& id, TracedFile& file);
    std::vector<std::string> order(const std::vector<TracedFile*>& files);
    bool count_not_attached(TracedFile& file);
    void start_new_traces();
    // What a file is to do beyond what it did: its sticky values are recorded once more there.
    using Added = std::map<std::uint32_t, std::vector<wire::Action>>;
    void plan_replays(const TracedFile& file, const Added& added, const DaemonSession* of = nullptr);
    void begin_replays();
    void replay_sticky_values(DaemonSession& session, const TracedFile& file);
    void await_unfinished();
    [[nodiscard]] std::set<uid_t> users_awaited(const std::set<AppDirectories::Unfinished>& unfinished) const;
    std::vector<TracedFile*> take_successors(std::vector<TracedFile*>& found, const std::vector<FileId>& gone);
    void end_traces_of_dead_processes(const std::vector<TracedFile*>& others);
    void end_trace(DaemonSession& session, std::unique_ptr<session::Trace> trace);
    void show_whether_active();
    void show_marks_anew();
    void leave_programs_of_another();
    void find_programs_anew();
    void forget(const FileId& id);
    Result<void> send_channel(wire::AppConnection& connection, const wire::AttachRequest& request);
    [[nodiscard]] TracedFile* find_file(const wire::RegisteredFile& registered);
    [[nodiscard]] const session::TraceChannel* find_channel(std::uint32_t number, uid_t uid) const;

    Parameters parameters_;
    std::unique_ptr<AppDirectories> directories_;
    session::DescriptionBudgets budgets_;
    Applications applications_;
    RingMemory ring_memory_;
    std::map<const session::Trace*, std::unique_ptr<consumer::Progress>> new_progress_;  // of traces that nobody knows
    std::map<std::string, DaemonSession> sessions_;
    std::map<uid_t, std::string> current_;
    bool has_looked_ = false;                        // at programs
    bool has_found_anew_ = true;                     // all that find_programs_anew() was to find
    bool has_seen_all_ = false;                      // of them, in one look
    bool has_freed_ = false;                         // a trace went away since those that wait for one were asked
    UniqueFd active_;                                // the file that says so, locked
    std::uint64_t next_id_ = 1;                      // of a session or trace
    std::set<AppDirectories::Unfinished> given_up_;  // files that were waited for in vain
    std::map<uid_t, std::chrono::steady_clock::time_point> waited_in_vain_;  // for files of these users, and when
    std::map<uid_t, std::chrono::steady_clock::time_point> not_awaited_until_;
    UniqueFd spare_;                                        // for the state, where others have all descriptors
    std::string kept_state_;                                // as the keeper has it
    std::vector<std::string> obsolete_;                     // names that the keeper need not keep, once it has that
    std::vector<UniqueFd> obsolete_rings_;                  // in memory, likewise
    std::vector<session::MemoryDirectory> obsolete_files_;  // of traces that are stored, likewise
    bool has_adopted_ = false;                              // sessions of the daemon before
    struct Replay {
        DaemonSession* session;
        const session::Trace* trace;
        session::StickyProgram program;
    };
    std::vector<Replay> replays_;                  // to begin when their traces are recorded
    std::map<FileId, KnownCount> counted_before_;  // by former daemons, of programs that may still be there
};

}  // namespace leat::sessiond
