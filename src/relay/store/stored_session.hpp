#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.hpp"
#include "relay/ingest/stream_handles.hpp"
#include "relay/ingest/stream_quota.hpp"
#include "relay/store/data_stream.hpp"
#include "relay/store/metadata_stream.hpp"
#include "relay/store/session_directory.hpp"
#include "wire/ingest/relay_messages.hpp"

namespace leat::relay {

// The streams that lie in one directory: one CTF trace.
struct Trace {
    std::uint64_t id = 0;  // unique in the relay
    std::string path{};    // that its producer asked for
    std::shared_ptr<SessionDirectory> directory{};
    std::shared_ptr<MetadataStream> metadata{};
    StreamQuota::Place metadata_place{};  // as long as it is open
    bool is_metadata_published = false;
    std::multiset<std::uint64_t> horizons{};  // of those that have not finished
    bool is_changed = false;                  // and followers have not heard of it
    bool is_complete = false;                 // waits to be forgotten
};

// A stream as its session knows it. Guarded by the session's lock, except for `stream`.
//
//                STREAMS_SENT               its view is finished                kMaxFinished others have finished
//     added  ----------------->  published  -------------------->  remembered  ----------------------------------> gone
//
// Viewers are offered it from "published" on. While it is remembered its handle still answers DATA_PENDING; its name
// and its place in the quota are free.
struct SessionStream {
    std::uint64_t id = 0;  // by which viewers know it; grows
    std::shared_ptr<DataStream> stream{};
    std::shared_ptr<Trace> trace{};
    bool is_published = false;
    bool is_checked = false;     // DATA_PENDING asked for it since BEGIN_DATA_PENDING
    StreamQuota::Place place{};  // as long as it has not finished
    StreamView view{};
    std::uint64_t change = 0;  // of the session, that was its last one
    std::list<std::shared_ptr<SessionStream>>::iterator by_change{};
};

// Data and indexes come on two connections, and either may be far ahead of the other.
enum class Half : std::uint8_t { kData, kIndexes };

// What a session is made of. Guarded by the session's lock, which nobody holds while a file is touched.
struct SessionState {
    // By id and by the producer's handle. Streams that have finished stay for a while: a viewer may come late, and a
    // producer asks whether all of it is stored.
    std::map<std::uint64_t, std::shared_ptr<SessionStream>> streams{};
    std::unordered_map<std::uint64_t, std::shared_ptr<SessionStream>> by_handle{};
    std::list<std::shared_ptr<SessionStream>> by_change{};  // the last to change is the last
    std::uint64_t changes = 0;
    std::uint64_t forgotten = 0;                                 // streams that have gone from all of these
    std::deque<std::shared_ptr<SessionStream>> finished{};       // the first to be forgotten is the first
    std::set<std::pair<std::string, std::string>> open_names{};  // path and channel name of open streams

    std::map<std::string, std::shared_ptr<Trace>> traces{};                // by path
    std::unordered_map<std::uint64_t, std::shared_ptr<Trace>> metadata{};  // by handle of the metadata stream, if open
    std::vector<std::shared_ptr<Trace>> changed_traces{};
    std::deque<std::shared_ptr<Trace>> complete_traces{};  // the first to be forgotten is the first

    std::shared_ptr<SessionDirectory> directory{};  // null: each trace has its own, as old peers say
    bool is_control_open = true;
    Time control_end{};  // when it closed
    bool has_data_connection = false;
    bool has_data_ended = false;         // and no other may come
    std::function<void()> hurry_data{};  // tells the data connection that the end is near
    std::uint64_t publications = 0;      // STREAMS_SENT so far
    std::size_t thread = 0;              // of the server, that serves the control connection
    Time last_change = now();            // when viewers could see something new

    [[nodiscard]] std::size_t open_streams() const { return open_names.size() + metadata.size(); }
};

// A session as one producer connection makes it: what the control connection, the data connection and the viewers
// share. Any thread.
//
//            the control connection ends            no stream waits for data, or the data connection has ended
//     open  ---------------------------->  ending  ------------------------------------------------------------>  over
//
// Locks, in the order in which they may be held together:
//
//     followers_mutex_  >  mutex_ (SessionState)  >  DataStream's view_mutex_
//
// A stream's own lock is held while its files are written, so it is never taken under the session's lock: a stream
// shows its view, and show() copies it from there.
class StoredSession {
  public:
    struct Description {
        std::uint64_t id = 0;
        std::uint32_t minor = 0;  // of the protocol
        wire::CreateSession request{};
    };
    StoredSession(Description description, std::shared_ptr<StreamHandles> handles)
        : description_(std::move(description)), handles_(std::move(handles)) {}
    ~StoredSession();
    StoredSession(const StoredSession&) = delete;
    StoredSession& operator=(const StoredSession&) = delete;

    [[nodiscard]] const Description& description() const { return description_; }
    [[nodiscard]] bool is_live() const { return description_.request.live_timer_us != 0; }

    template <class Function>
    auto locked(Function&& function) {
        const std::lock_guard lock(mutex_);
        return std::forward<Function>(function)(state_);
    }
    [[nodiscard]] std::shared_ptr<SessionDirectory> directory();
    [[nodiscard]] std::vector<std::shared_ptr<SessionStream>> open_streams();

    void add(const std::shared_ptr<SessionStream>& stream);
    // What the stream has flushed is in the session's view from now on. False: that is nothing new.
    bool show(const std::shared_ptr<SessionStream>& stream);
    // Its metadata has grown, or ended.
    void show(const std::shared_ptr<Trace>& trace);
    // Ends what nothing more will come for. True when all streams have ended.
    bool finish_streams(Time now);
    // A connection of it waits for the disk, and what comes behind cannot be read: no packet grows too old for the
    // other half.
    void note_disk_wait(Time now);
    void end_data(Time now);

    // A connection that is too far ahead of the other one waits for it. Fails where both do, for a while: nothing that
    // either of them waits for can come then.
    Result<void> wait(Half half, Time now);
    void go_on(Half half) {
        waits_since_[index_of(half)] = Time{};
        if (half == Half::kData) note_data();
    }
    // Data has come, or is here and waits for the disk.
    void note_data() {
        silent_looks_ = 0;
        is_data_silent_ = false;
    }
    // Whether its connection waits for data, and what had come is stored: a thread that stands still, or a disk that is
    // slow, is no silence.
    void note_idle_data(bool is_idle) { is_data_idle_ = is_idle; }
    // Indexes have waited for data, and none has come for a while. They wait no longer, until some comes.
    [[nodiscard]] bool is_data_silent() const { return is_data_silent_; }

    // Viewers learn of changes without looking again and again: every change counts one up, and calls who asked. Those
    // who follow the files hear of how far each trace is.
    [[nodiscard]] std::uint64_t change() const { return change_.load(); }
    void wake_viewers();
    void ring_for_followers();
    // Both.
    void note_change();
    using Listener = std::function<void()>;
    std::list<Listener>::iterator add_listener(Listener listener);
    void remove_listener(std::list<Listener>::iterator listener);
    std::atomic<std::uint32_t> viewers{0};

    // Streams that have finished, and traces that are complete: so many of each are remembered.
    static constexpr std::size_t kMaxFinished = 1024;

  private:
    // What goes is kept until the lock is given up.
    struct Forgotten {
        std::vector<std::shared_ptr<SessionStream>> streams{};
        std::vector<std::shared_ptr<Trace>> traces{};
    };
    static std::size_t index_of(Half half) { return static_cast<std::size_t>(half); }
    static void note_horizon(SessionStream& stream, const StreamView& view);
    static void mark_changed(SessionState& state, const std::shared_ptr<Trace>& trace);
    static void retire(SessionState& state, const std::shared_ptr<SessionStream>& stream, Forgotten& forgotten);
    static void note_if_complete(SessionState& state, const std::shared_ptr<Trace>& trace, Forgotten& forgotten);
    void forget(const Forgotten& forgotten);

    const Description description_;
    const std::shared_ptr<StreamHandles> handles_;
    std::mutex mutex_;
    SessionState state_;
    std::array<std::atomic<Time>, 2> waits_since_{};  // when each half began to wait; 0: it does not
    std::atomic<std::uint32_t> silent_looks_{0};      // of indexes for data, since data came last
    std::atomic<bool> is_data_silent_{false};
    std::atomic<bool> is_data_idle_{true};  // also: nobody has connected to send some
    std::atomic<std::uint64_t> change_{0};
    std::mutex listeners_mutex_;
    std::list<Listener> listeners_;
    std::mutex followers_mutex_;  // horizons are published in their order
};

// What one connection has changed in its session: brought to disk together, and then shown.
class Changes {
  public:
    void add(const std::shared_ptr<SessionStream>& stream);
    // Of something else that viewers can see.
    void note() { is_visible_ = true; }
    [[nodiscard]] bool is_empty() const { return streams_.empty() && !is_visible_; }
    // kDiskFull: to be tried again. True: somebody has to be told, by StoredSession::wake_viewers() and
    // ring_for_followers().
    Result<bool> flush(StoredSession& session, Time now);

  private:
    std::vector<std::shared_ptr<SessionStream>> streams_{};
    bool is_visible_ = false;
};

}  // namespace leat::relay
