#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "base/result.hpp"
#include "relay/confined_directory.hpp"
#include "relay/file_guard.hpp"
#include "wire/relay_messages.hpp"

namespace leat::relay {

// A stretch of a session that is a trace of its own, in a directory of its own once the session has been rotated.
// Made and kept by SessionDirectory.
struct TraceChunk {
    std::uint64_t id = 0;
    std::uint64_t creation_time = 0;  // s since the epoch
    std::string path{};               // below the session's directory; empty: that itself
    std::optional<ConfinedDirectory> directory{};
    std::set<std::string> top_level{};  // what streams have made in it
    std::uint64_t writers = 0;          // streams that write into it
    std::optional<wire::CloseTraceChunk> close{};
    std::string closed_path{};  // where it goes then
    bool is_finished = false;   // has gone there
    bool is_deleted = false;
};

// The directory of a session, and its chunks: where they live, and how they move when the session is rotated or
// cleared. Several connections may share it: the parts of one session (kernel, 32-bit programs). Any thread.
class SessionDirectory {
  public:
    // `guard`: of files that are written over; null: none are.
    SessionDirectory(ConfinedDirectory directory, std::string path, FileGuard* guard = nullptr)
        : directory_(std::move(directory)), path_(std::move(path)), guard_(guard) {}

    [[nodiscard]] FileGuard* guard() const { return guard_; }

    // Relative to the relay's output.
    [[nodiscard]] const std::string& path() const { return path_; }

    // Fails with kUnsupported if two chunks are open already.
    Result<std::shared_ptr<TraceChunk>> create_chunk(const wire::CreateTraceChunk& request);
    // For peers that know nothing of chunks.
    std::shared_ptr<TraceChunk> implicit_chunk();
    // Takes effect when the last stream has left the chunk. Where it will be, relative to the relay's output.
    Result<std::string> close_chunk(const wire::CloseTraceChunk& request);
    // Whether the chunk is still written to.
    [[nodiscard]] bool is_open(std::uint64_t id) const;
    [[nodiscard]] std::shared_ptr<TraceChunk> find(std::uint64_t id) const;

    // A stream writes into the chunk from now on, at `path` in it; or does no more.
    void enter(TraceChunk& chunk);
    void leave(TraceChunk& chunk);
    Result<ConfinedDirectory> make_path(TraceChunk& chunk, const std::string& path);

    // That read what is stored here over the network: the files must then not change behind their backs.
    std::atomic<std::uint32_t> viewers{0};

    // The session is over: chunks whose closing waits for nobody any more.
    void finish_all();

  private:
    [[nodiscard]] bool is_root_taken() const;
    [[nodiscard]] std::string closed_path_of(const TraceChunk& chunk, const wire::CloseTraceChunk& request) const;
    void finish(TraceChunk& chunk);
    Result<void> archive(TraceChunk& chunk);
    Result<void> erase(TraceChunk& chunk);
    Result<void> move_to_root(TraceChunk& chunk);

    mutable std::mutex mutex_;
    ConfinedDirectory directory_;
    std::string path_;
    FileGuard* guard_;
    std::map<std::uint64_t, std::shared_ptr<TraceChunk>> chunks_;  // open, or waiting for their streams to leave
    bool has_rotated_ = false;
};

}  // namespace leat::relay
