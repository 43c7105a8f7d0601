#pragma once

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/journal.hpp"
#include "base/result.hpp"
#include "consumer/progress.hpp"
#include "host/chunk_directories.hpp"
#include "host/destination.hpp"
#include "host/engine.hpp"
#include "host/flight_recorder.hpp"
#include "output/channel_files.hpp"
#include "session/sticky_replay.hpp"
#include "session/trace.hpp"
#include "sessiond/mailbox.hpp"

namespace leat::sessiond {

// Whose files a session writes: the thread takes on that user's rights to files, and no others.
struct Owner {
    uid_t uid;
    gid_t gid;
};

// Runs the recordings of one session on a thread of its own, so that a slow disk or relay holds up nothing but that
// session. The daemon's thread calls it; what comes of it is told through the daemon's mailbox.
class SessionThread {
  public:
    struct Parameters {
        std::string session;
        host::Destination destination;
        std::optional<Owner> owner{};  // none: the daemon's own user
        // Where its chunks are, and whether a snapshot is wanted: what it says, the session goes on with.
        Journal chunks;
        std::uint64_t max_size = 0;         // bytes of packets; 0: no limit
        std::uint64_t bytes = 0;            // that there are already
        bool is_full = false;               // from the start
        std::function<void()> when_full{};  // called by the daemon's thread, once
        // Likewise, whenever programs or events have asked for a snapshot.
        std::function<void()> when_snapshot_wanted{};
        Mailbox* daemon;  // outlives the thread
    };
    // What became of a task, in words; empty: it is done.
    using Done = std::function<void(std::string trouble)>;

    struct Figures {
        std::vector<std::uint64_t> events{};      // of each channel
        std::vector<std::uint64_t> unreadable{};  // likewise
        std::vector<std::uint64_t> beyond_limit{};
        std::vector<std::uint64_t> bytes{};
    };

    static Result<std::unique_ptr<SessionThread>> start(Parameters parameters);
    // Ends the thread. What the rings hold then is lost, unless finish() was done.
    ~SessionThread();
    SessionThread(const SessionThread&) = delete;
    SessionThread& operator=(const SessionThread&) = delete;

    // Sees to it that the destination can be written to. `warning`: of a relay beside a directory; empty: it is there.
    // `place`: the directory, by its own name; empty: there is none.
    using Prepared = std::function<void(std::string trouble, std::string warning, std::filesystem::path place)>;
    void prepare(Prepared done);
    // Records the trace from now on. It outlives the thread, as does its progress (null: it is not kept). If its output
    // cannot be opened, that is tried again.
    void add(session::Trace& trace, consumer::Progress* progress);
    // Records the last values of the program's sticky events again, in a trace that was added.
    void replay(const session::Trace& trace, session::StickyProgram program);
    // Stores all that the rings hold by now, also those of traces that are ending.
    void settle(Done done);
    // Ends the recording of one trace, however long it takes until its output can be opened and has stored everything.
    // Until take_figures(), its figures are there.
    void end(const session::Trace& trace, Done done);
    // Stores all that the rings hold by now and goes on in another chunk. `path`: where the one before is now; in the
    // output of a relay, where each trace has one: "PATH, PATH". `has_begun`: chunks have begun, or were cleared, be it
    // of some traces.
    using BegunAnew = std::function<void(std::string trouble, std::string path, bool has_begun)>;
    void rotate(BegunAnew done);
    // Removes what is stored of this chunk, also of traces that have ended. `channels`: those of the session.
    void clear(std::vector<output::ChannelFiles> channels, BegunAnew done);
    // Writes the metadata of this chunk's traces again, with the time of day as the system has it by now.
    void regenerate_metadata(Done done);
    // Stores what the rings hold, of a session of snapshots.
    using Snapped = std::function<void(std::string trouble, host::StoredSnapshot stored)>;
    void snapshot(host::SnapshotOrder order, Snapped done);
    // The one that is wanted, if it still is. What comes of it is logged, and told by snapshot_trouble().
    void take_wanted_snapshot();
    // It is wanted, as if a program had asked: when it is due, it comes back as when_snapshot_wanted(). `when_kept`,
    // called by the daemon's thread: a daemon that goes on after us will ask again.
    void ask_for_snapshot(std::function<void()> when_kept);
    // However they were asked for.
    [[nodiscard]] std::uint64_t snapshots_stored() const { return snapshots_stored_; }
    // Ends all recordings; nothing may be added any more. What comes no further is given up: the trouble says what is
    // not stored.
    void finish(Done done);

    [[nodiscard]] Figures figures(const session::Trace& trace) const;
    // Of a trace that has ended: nothing refers to it afterwards.
    Figures take_figures(const session::Trace& trace);
    // What was stored since this thread was started, and is not where it was to be.
    struct Missing {
        std::uint64_t relay_packets = 0;   // that are in the directory and not at the relay
        std::uint64_t removed_events = 0;  // whose files somebody had removed
        void add(const consumer::Output& output) {
            relay_packets += output.packets_missed();
            removed_events += output.events_lost();
        }
    };
    [[nodiscard]] Missing missing() const;
    // Of all packets, if there is a limit.
    [[nodiscard]] std::uint64_t bytes() const;
    // Why events stay in the rings now; empty: they are stored.
    [[nodiscard]] std::string storage_trouble() const;
    // Why the snapshot that a program, an event or a crash has asked for last is not stored as a whole; empty: it is.
    [[nodiscard]] std::string snapshot_trouble() const;

  private:
    struct Recorded {
        session::Trace* trace;
        consumer::Progress* progress;
        host::Recording* recording = nullptr;  // of the engine; null: not opened yet
        std::size_t warnings_told = 0;
        std::string trouble{};
        bool is_obstructed = false;  // something is where its files are to be
        bool lacks_room = false;     // the disk is full
        host::Engine::Clock::time_point next_try{};
        // Whose sticky values are to be recorded when it is opened.
        std::vector<std::shared_ptr<session::StickyProgram>> owed{};
        Done when_ended{};  // set: it is to end
    };
    bool has_begun_anew_ = false;  // since the last answer_begun()
    // Why something is not stored, the first of several reasons, and how many events of all that is.
    struct EndTrouble {
        std::string why{};
        std::uint64_t events_left = 0;  // in rings
        void add(const EndTrouble& other) {
            if (why.empty()) why = other.why;
            events_left += other.events_left;
        }
        [[nodiscard]] std::string text() const;
    };

    // What the journal says.
    struct KeptState {
        host::ChunkDirectories chunks;
        bool is_snapshot_wanted = false;
        std::uint64_t snapshots = 0;
    };
    static Result<KeptState> read_kept(const std::filesystem::path& session, const Journal& journal);

    SessionThread(Parameters parameters, KeptState kept, std::unique_ptr<host::Engine> engine)
        : parameters_(std::move(parameters)),
          chunks_(std::move(kept.chunks)),
          limit_(parameters_.max_size != 0 ? parameters_.max_size : consumer::SizeLimit::kNone, parameters_.bytes),
          is_full_told_(parameters_.is_full),
          engine_(std::move(engine)),
          bytes_(parameters_.bytes),
          flight_recorder_(parameters_.destination, parameters_.session),
          is_wish_kept_(kept.is_snapshot_wanted),
          snapshots_stored_(kept.snapshots) {
        if (parameters_.is_full) limit_.reach();
        if (is_wish_kept_) flight_recorder_.ask();
    }
    void run();
    void tell_if_full();
    [[nodiscard]] std::vector<host::Recording*> recordings() const;
    void tell_if_snapshot_wanted();
    void keep_wish(bool is_wanted);
    bool may_end(const Recorded& recorded);
    Result<host::StoredSnapshot> take_snapshot(const host::SnapshotOrder& order);
    Result<void> take_wanted();
    std::string take_unmet_snapshot();
    void note_snapshot_trouble(std::string trouble);
    void note_snapshot_met();
    [[nodiscard]] Result<void> become_owner() const;
    void open_all();
    void open_due();
    void open(Recorded& recorded);
    [[nodiscard]] bool is_in_the_way_of_its_user(const Error& error) const;
    void note_trouble(Recorded& recorded, const Error& error) const;
    Result<std::unique_ptr<host::Recording>> begin(const Recorded& recorded);
    Result<std::unique_ptr<host::Recording>> begin_for_snapshots(const Recorded& recorded);
    void end_opened();
    EndTrouble finish_those_done();
    [[nodiscard]] bool is_to_be_given_up(const Recorded& recorded) const;
    EndTrouble remove_finished(Recorded& recorded);
    static EndTrouble trouble_at_the_end(const Recorded& recorded);
    void tell_ended(const Recorded& recorded) const;
    static std::string trouble_of(const Recorded& recorded);
    static std::string trouble_for_others_of(const Recorded& recorded);
    static std::string storage_trouble_of(const Recorded& recorded);
    // Of all recordings, also of those that end; empty: none has one.
    std::string first_trouble(std::string (*of)(const Recorded&)) const;
    std::string settle_all(std::string (*trouble_of_each)(const Recorded&));
    void begin_streams();
    void resume_all();
    EndTrouble finish_all();
    void publish();
    void publish(Recorded& recorded);
    void remove(const Recorded& recorded);
    void tell_warnings(Recorded& recorded) const;
    void replay_now(const session::Trace& trace, const std::shared_ptr<session::StickyProgram>& shared);
    static bool add_owed(std::vector<std::shared_ptr<session::StickyProgram>>& owed,
                         const std::shared_ptr<session::StickyProgram>& program, std::size_t most);
    Result<void> keep_state();
    void count_snapshot();
    Result<std::filesystem::path> rotate_now();
    Result<std::string> rotate_at_relay();
    void finish_rotation();
    void answer_begun(const BegunAnew& done, const Result<std::string>& path);
    std::string settle_to_clear(const std::vector<output::ChannelFiles>& channels);
    Result<void> clear_now(const std::vector<output::ChannelFiles>& channels);
    // `finishing`: of traces that have ended and are still being stored.
    enum class Finishing : std::uint8_t { kStays, kGoes };
    [[nodiscard]] Result<void> clear_ended(const std::vector<output::ChannelFiles>& channels,
                                           Finishing finishing) const;
    Result<void> sample_clock_offsets();
    void answer(const Done& done, std::string trouble);

    Parameters parameters_;
    host::ChunkDirectories chunks_;
    consumer::SizeLimit limit_;
    bool is_full_told_;
    Mailbox inbox_;
    std::unique_ptr<host::Engine> engine_;
    std::vector<Recorded> recorded_;
    std::vector<Recorded> finishing_;  // take their turns with the others until they are finished
    bool is_session_finishing_ = false;
    bool is_ending_ = false;
    Result<void> trouble_;  // why nothing may be written: sessions are refused then

    Missing missing_of_ended_;  // of traces that have ended

    mutable std::mutex lock_;  // of the next
    std::map<const session::Trace*, Figures> figures_;
    Missing missing_;
    std::string storage_trouble_;
    std::string snapshot_trouble_;
    std::uint64_t bytes_;

    host::FlightRecorder flight_recorder_;
    bool is_wish_kept_;          // by the journal
    bool is_part_lost_ = false;  // of the snapshot that is wanted: that of a process that has ended
    std::atomic<std::uint64_t> snapshots_stored_;

    std::thread thread_;
};

}  // namespace leat::sessiond
