#include "trace/sync_file.hpp"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/file.hpp"

namespace leat::trace {
namespace {

// No writer ever rings a bell beyond this one: a larger generation is made up.
constexpr std::uint64_t kMaxGeneration = std::uint64_t{1} << 62U;
// The writer holds this bell as long as it lives.
constexpr std::uint64_t kLastBell = kSyncLockBase + kMaxGeneration;
constexpr int kReadTries = 1000;
constexpr char kNewSyncFileName[] = ".leat-sync-new";

}  // namespace

Result<SyncState> parse_sync_record(UntrustedBytes bytes) {
    static_assert(std::endian::native == std::endian::little);
    if (bytes.size() != sizeof(SyncRecord))
        return corrupt("sync file has {} bytes of {}", bytes.size(), sizeof(SyncRecord));
    SyncRecord record;
    std::memcpy(&record, bytes.data(), sizeof record);
    if (record.magic != kSyncMagic) return corrupt("sync file does not begin with its magic number");
    if (record.version != kSyncVersion)
        return unsupported("sync file has version {}, but only version {} is supported", record.version, kSyncVersion);
    if (record.generation != record.generation_again || record.generation > kMaxGeneration)
        return corrupt("sync file is torn: generation {} at its beginning, {} at its end", record.generation,
                       record.generation_again);
    return SyncState{record.generation, record.horizon, record.metadata_size};
}

Result<SyncWriter> SyncWriter::create(int directory_fd, std::uint64_t horizon) {
    // Do not truncate the old file, but make a new one: readers of the old one see that its session has ended. Lock
    // the new one before it gets its name: without a lock it would look like the file of a session that has ended.
    if (::unlinkat(directory_fd, kNewSyncFileName, 0) != 0 && errno != ENOENT)
        return io_error(fmt::format("cannot replace {}", kNewSyncFileName));
    UniqueFd fd(::openat(directory_fd, kNewSyncFileName, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0660));
    if (!fd.is_open()) return io_error(fmt::format("cannot create {}", kNewSyncFileName));
    SyncWriter writer(std::move(fd));
    writer.record_.horizon = horizon;
    auto made = writer.write();
    if (made && ::renameat(directory_fd, kNewSyncFileName, directory_fd, kSyncFileName) != 0)
        made = io_error(fmt::format("cannot replace {}", kSyncFileName));
    if (made) return writer;
    ::unlinkat(directory_fd, kNewSyncFileName, 0);
    return tl::unexpected(std::move(made).error());
}

Result<void> SyncWriter::publish(std::uint64_t horizon, std::uint64_t metadata_size) {
    record_.generation_again = ++record_.generation;
    record_.horizon = horizon;
    record_.metadata_size = metadata_size;
    LEAT_TRY(write());
    // Ring the bell after the record is written: a reader that it wakes must find the record.
    lock_.move_to(kSyncLockBase + record_.generation);
    return {};
}

Result<void> SyncWriter::write() {
    const auto bytes = std::as_bytes(std::span(&record_, 1));
    const ssize_t count = ::pwrite(fd_.get(), bytes.data(), bytes.size(), 0);
    if (count == static_cast<ssize_t>(bytes.size())) return {};
    if (count >= 0) errno = ENOSPC;
    return io_error(fmt::format("cannot write {}", kSyncFileName));
}

Result<std::optional<SyncReader>> SyncReader::open(const std::filesystem::path& directory) {
    std::error_code ignored;
    const std::filesystem::path path = directory / kSyncFileName;
    if (!std::filesystem::exists(path, ignored)) return std::optional<SyncReader>();
    return std::optional(SyncReader(LEAT_TRY(open_for_reading(path))));
}

Result<SyncState> SyncReader::read() const {
    Result<SyncState> state;
    // A reader may meet the writer half way through its 40 bytes, but not a thousand times in a row.
    for (int tries = 0; tries < kReadTries; ++tries) {
        std::array<std::byte, sizeof(SyncRecord)> bytes{};
        const ssize_t count = ::pread(fd_.get(), bytes.data(), bytes.size(), 0);
        if (count < 0) return io_error(fmt::format("cannot read {}", kSyncFileName));
        state = parse_sync_record(std::span(bytes).first(static_cast<std::size_t>(count)));
        if (state || state.error().kind == ErrorKind::kUnsupported) return state;
        ::sched_yield();
    }
    return state;
}

bool SyncReader::is_writer_gone() const { return !is_write_locked(fd_.get(), kLastBell, 1); }

Result<LockWait> SyncReader::wait_after(std::uint64_t generation) const {
    return wait_until_unlocked(fd_.get(), kSyncLockBase + generation, 1);
}

bool is_being_written(const std::filesystem::path& directory) {
    const auto sync = SyncReader::open(directory);
    return sync && *sync && !(*sync)->is_writer_gone();
}

}  // namespace leat::trace
