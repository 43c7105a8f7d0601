// `.leat-sync` in a trace directory that grows: how far all its streams are, and a bell. docs/formats/sync-file.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>

#include "base/byte_cursor.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "trace/moving_lock.hpp"

namespace leat::trace {

inline constexpr char kSyncFileName[] = ".leat-sync";
inline constexpr std::uint32_t kSyncMagic = 0x5354'454c;  // "LETS"
inline constexpr std::uint32_t kSyncVersion = 1;

// The file, little-endian. `generation` counts publications. It stands at both ends, so that a reader notices when it
// has met the writer half way.
struct SyncRecord {
    std::uint32_t magic = kSyncMagic;
    std::uint32_t version = kSyncVersion;
    std::uint64_t generation = 0;
    std::uint64_t horizon = 0;        // trace clock cycles: no event that is still to come, in any stream, is older
    std::uint64_t metadata_size = 0;  // bytes of `metadata` that are whole units
    std::uint64_t generation_again = 0;
};
static_assert(sizeof(SyncRecord) == 40 && offsetof(SyncRecord, generation_again) == 32);

// Locks are on bytes that the file never has: the bell of generation g is the byte kSyncLockBase + g, and the writer
// holds all bells from its generation on.
inline constexpr std::uint64_t kSyncLockBase = 4096;

struct SyncState {
    std::uint64_t generation = 0;
    std::uint64_t horizon = 0;
    std::uint64_t metadata_size = 0;
};

// An error if these bytes are no record, or half of one and half of the next.
Result<SyncState> parse_sync_record(UntrustedBytes bytes);

// The writer's end, for one thread. When the object is destroyed, or its process ends, followers see that the session
// has ended.
class SyncWriter {
  public:
    // Creates the file in the trace directory, beside `metadata`; replaces that of an earlier session. `horizon`: as
    // for publish(), if it is known by now; 0: it is not. Followers tell no later event, of any directory, before the
    // first publication here.
    static Result<SyncWriter> create(int directory_fd, std::uint64_t horizon = 0);

    // Call it after data, index and metadata are written. Wakes all followers; costs two system calls.
    Result<void> publish(std::uint64_t horizon, std::uint64_t metadata_size);

    [[nodiscard]] int fd() const { return fd_.get(); }
    // The last one that was to be published, or what create() was given.
    [[nodiscard]] std::uint64_t horizon() const { return record_.horizon; }

  private:
    explicit SyncWriter(UniqueFd fd) : fd_(std::move(fd)), lock_(fd_.get(), kSyncLockBase) {}

    Result<void> write();

    UniqueFd fd_;
    MovingLock lock_;
    SyncRecord record_;
};

// A follower's end. There may be any number of followers; none can disturb the writer or another follower.
class SyncReader {
  public:
    // Returns nothing if the directory has no such file: nobody writes there who could be followed.
    static Result<std::optional<SyncReader>> open(const std::filesystem::path& directory);

    [[nodiscard]] Result<SyncState> read() const;
    // Whether the session has ended. If so, read() returns its final state from now on.
    [[nodiscard]] bool is_writer_gone() const;
    // Waits until there is a later generation, the writer is gone, or a signal comes.
    [[nodiscard]] Result<LockWait> wait_after(std::uint64_t generation) const;

  private:
    explicit SyncReader(UniqueFd fd) : fd_(std::move(fd)) {}

    UniqueFd fd_;
};

// Whether a session writes to the directory that followers can follow: what it writes last may be there in part.
bool is_being_written(const std::filesystem::path& directory);

}  // namespace leat::trace
