#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "relay/data_stream.hpp"
#include "relay/metadata_stream.hpp"
#include "relay/session_directory.hpp"
#include "wire/relay_messages.hpp"

namespace leat::relay {

// The streams that lie in one directory: one CTF trace.
struct Trace {
    std::uint64_t id = 0;  // unique in the relay
    std::string path{};
    std::shared_ptr<MetadataStream> metadata{};
    bool is_metadata_published = false;
    std::uint64_t horizon = 0;  // of its streams, when publish_horizons() looked last
};

struct SessionStream {
    std::shared_ptr<DataStream> stream{};
    std::shared_ptr<Trace> trace{};
    bool is_published = false;
    bool is_checked = false;  // DATA_PENDING asked for it since BEGIN_DATA_PENDING
};

// What a session is made of. Guarded by the session's lock.
struct SessionState {
    std::map<std::uint64_t, SessionStream> streams{};            // by handle; those that are finished, too
    std::map<std::string, std::shared_ptr<Trace>> traces{};      // by path
    std::map<std::uint64_t, std::shared_ptr<Trace>> metadata{};  // by handle of the metadata stream
    std::shared_ptr<TraceChunk> chunk{};                         // where new streams go
    bool is_control_open = true;
    Time control_end{};  // when it closed
    bool has_data_connection = false;
    std::vector<std::shared_ptr<DataStream>> unflushed{};
    std::function<void()> hurry_data{};  // tells the data connection that the end is near
    std::uint64_t publications = 0;      // STREAMS_SENT so far
    std::size_t thread = 0;              // of the server, that serves the control connection
};

// How far each trace is, for those who follow its files. Under the session's lock.
void publish_horizons(SessionState& state);

// A session as one producer connection makes it: what the control connection, the data connection and the viewers
// share. Whoever touches the state holds the lock, for as long as a write of one piece takes.
class Session {
  public:
    struct Description {
        std::uint64_t id = 0;
        std::uint32_t minor = 0;  // of the protocol
        wire::CreateSession request{};
        std::shared_ptr<SessionDirectory> directory{};
    };
    explicit Session(Description description) : description_(std::move(description)) {}

    [[nodiscard]] const Description& description() const { return description_; }
    [[nodiscard]] bool is_live() const { return description_.request.live_timer_us != 0; }
    [[nodiscard]] SessionDirectory& directory() const { return *description_.directory; }

    template <class Function>
    auto locked(Function&& function) {
        const std::lock_guard lock(mutex_);
        return std::forward<Function>(function)(state_);
    }

    // Viewers learn of changes without looking again and again: every change counts one up, and calls who asked; and
    // it rings for those who follow the files. Without the lock.
    [[nodiscard]] std::uint64_t change() const { return change_.load(); }
    // What was committed before is to be flushed first.
    void note_change();
    // Its two halves: viewers may have their turn between them.
    void wake_viewers();
    void ring_for_followers() { locked(publish_horizons); }
    using Listener = std::function<void()>;
    std::list<Listener>::iterator add_listener(Listener listener);
    void remove_listener(std::list<Listener>::iterator listener);

  private:
    Description description_;
    std::mutex mutex_;
    SessionState state_;
    std::atomic<std::uint64_t> change_{0};
    std::mutex listeners_mutex_;
    std::list<Listener> listeners_;
};

// The parts of a session's life that more than one connection can bring about. Under the lock.

// Commits what time has made complete, or lost.
void commit_all(SessionState& state, Time now);
// A stream has committed something; flush_all() brings all of that to disk, or says that the disk is full.
void note_commit(SessionState& state, const std::shared_ptr<DataStream>& stream);
Result<Disk> flush_all(SessionState& state);
// Ends the streams that nothing more will come for. True when all have ended.
bool finish_streams(SessionState& state, Time now);
void end_data(SessionState& state, Time now);
}  // namespace leat::relay
