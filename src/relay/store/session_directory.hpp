#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "relay/store/confined_directory.hpp"
#include "relay/store/disk_sync.hpp"
#include "relay/store/file_guard.hpp"
#include "trace/sync_file.hpp"
#include "wire/ingest/relay_messages.hpp"

namespace leat::relay {

// By this, readers of a trace's directory know that more may come: docs/formats/sync-file.md.
struct SyncPlace {
    ConfinedDirectory directory;
    trace::SyncWriter sync;
};

// A stretch of a session that is a trace of its own, in a directory of its own once the session has been rotated.
// Made and kept by SessionDirectory.
struct TraceChunk {
    // The streams of a trace that write into the chunk, or will.
    struct Writers {
        std::uint64_t count = 0;
        std::optional<SyncPlace> left{};  // by its metadata: packets of before may still be on their way
    };

    std::uint64_t id = 0;
    std::uint64_t creation_time = 0;                // s since the epoch
    std::string path{};                             // below the session's directory; empty: that itself
    std::optional<ConfinedDirectory> directory{};   // until it is settled
    std::set<std::string> top_level{};              // what its traces have made in it
    std::map<std::string, std::string> parents{};   // of these, those that traces share: as they ask for it, as it is
    std::map<std::uint64_t, std::string> traces{};  // where each lies in it, by the trace's id
    std::set<std::string> places{};                 // the same, of all
    std::map<std::uint64_t, Writers> writers{};     // by the trace's id; none has no entry
    std::optional<wire::CloseTraceChunk> close{};
    std::string closed_path{};            // where it goes then
    std::atomic<bool> is_deleted{false};  // any thread
};

// Who looks after the files of all sessions. Any of them may be null.
struct FileKeepers {
    std::shared_ptr<DiskSync> sync{};
    std::shared_ptr<FileGuard> guard{};
};

// The directory of a session, and its chunks: where they live, and how they move when the session is rotated or
// cleared. Several connections may share it: the parts of one session (kernel, 32-bit programs).
//
// Whatever a peer names, a session changes only what it made: each chunk, and each trace in it, is a directory that was
// not there before. What is moved or deleted is one of those. Any thread.
class SessionDirectory {
  public:
    // Whether the directory was made for this session, or found: that of a session's snapshots.
    enum class Origin : std::uint8_t { kMade, kFound };
    SessionDirectory(ConfinedDirectory directory, std::string path, Origin origin = Origin::kMade,
                     FileKeepers keepers = {})
        : directory_(std::move(directory)), path_(std::move(path)), origin_(origin), keepers_(std::move(keepers)) {}

    // What was not closed in an orderly way is brought to disk now.
    ~SessionDirectory();
    SessionDirectory(const SessionDirectory&) = delete;
    SessionDirectory& operator=(const SessionDirectory&) = delete;

    // Relative to the relay's output.
    [[nodiscard]] const std::string& path() const { return path_; }
    [[nodiscard]] bool is_found() const { return origin_ == Origin::kFound; }
    // By somebody else: nothing new can be made in it.
    [[nodiscard]] bool is_removed() const { return directory_.is_removed(); }
    // All of it, and of its file system.
    [[nodiscard]] Unsynced unsynced() const { return {duplicate(directory_.fd()), Unsynced::Extent::kFileSystem}; }
    [[nodiscard]] FileGuard* guard() const { return keepers_.guard.get(); }

    // Fails with kUnsupported if two chunks are open already.
    Result<std::shared_ptr<TraceChunk>> create_chunk(const wire::CreateTraceChunk& request);
    // For peers that know nothing of chunks.
    Result<std::shared_ptr<TraceChunk>> implicit_chunk();
    // Takes effect when the last stream has left the chunk. Where it will be, relative to the relay's output. Each part
    // of the session may say it.
    Result<std::string> close_chunk(const wire::CloseTraceChunk& request);
    // Whether the chunk is still written to.
    [[nodiscard]] bool is_open(std::uint64_t id) const;
    [[nodiscard]] std::shared_ptr<TraceChunk> find(std::uint64_t id) const;

    // A stream writes into the chunk from now on, or will; or does no more.
    void enter(TraceChunk& chunk, std::uint64_t trace_id);
    void leave(TraceChunk& chunk, std::uint64_t trace_id);
    // The metadata of a trace has a new sync file there, or leaves its own to the streams that are still there.
    void enter_metadata(TraceChunk& chunk, std::uint64_t trace_id);
    void leave_metadata(TraceChunk& chunk, std::uint64_t trace_id, SyncPlace sync);
    // The directory of a trace in the chunk; made at the first call, under another name if `path` is taken.
    struct TracePlace {
        ConfinedDirectory directory;
        std::string path;  // in the chunk
    };
    Result<TracePlace> make_trace(TraceChunk& chunk, std::uint64_t trace_id, const std::string& path);
    // Where it is now: chunks move.
    [[nodiscard]] Result<ConfinedDirectory> open_trace(const TraceChunk& chunk, const std::string& path) const;
    // Chunks that could not be moved or deleted when they were complete, because the disk was full, are so now; or at
    // the next call.
    void settle();
    // The trace will make nothing more.
    void forget_trace(std::uint64_t trace_id);

  private:
    [[nodiscard]] bool is_root_free() const { return origin_ == Origin::kMade && !has_rotated_ && !is_root_taken_; }
    [[nodiscard]] std::string path_of(const std::string& path) const {
        return path.empty() ? path_ : path_ + "/" + path;
    }
    void leave_locked(TraceChunk& chunk, std::uint64_t trace_id);
    [[nodiscard]] bool goes_to_archives(const wire::CloseTraceChunk& request) const;
    static Result<std::string> make_parent(TraceChunk& chunk, const std::string& name);
    void sync(const ConfinedDirectory& directory) const;
    void finish(const TraceChunk& chunk);
    void settle_chunks();
    static Result<void> rename_all(const TraceChunk& chunk, const ConfinedDirectory& target);
    Result<void> archive(TraceChunk& chunk);
    Result<void> erase(TraceChunk& chunk);
    Result<void> move_to_root(TraceChunk& chunk);

    mutable std::mutex mutex_;
    ConfinedDirectory directory_;
    std::string path_;
    Origin origin_;
    FileKeepers keepers_;
    std::map<std::uint64_t, std::shared_ptr<TraceChunk>> chunks_;  // open, or waiting for their streams to leave
    std::deque<std::pair<std::uint64_t, std::string>> closed_{};   // the last ones: where they went
    std::vector<std::shared_ptr<TraceChunk>> unsettled_{};         // complete, but not where they are to be
    bool is_root_taken_ = false;                                   // by a chunk, that may have been closed there
    bool has_rotated_ = false;
};

// A path that a peer names for a trace, below its chunk: parse_path(), and no step of it is a name that the relay
// gives.
Result<std::string> parse_trace_path(const std::string& path);

}  // namespace leat::relay
