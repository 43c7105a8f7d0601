#include "viewer/read/followed_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/file.hpp"
#include "trace/stream_paths.hpp"

namespace leat::viewer {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxEntrySize = 4096;

constexpr std::int64_t kPerSecond = 1'000'000'000;  // ns

std::optional<FileIdentity> identity_of(int directory, const char* name, int flags) {
    struct statx status {};
    if (::statx(directory, name, flags, STATX_INO | STATX_BTIME, &status) != 0) return std::nullopt;
    const bool has_birth = (status.stx_mask & STATX_BTIME) != 0;
    return FileIdentity{.device = gnu_dev_makedev(status.stx_dev_major, status.stx_dev_minor),
                        .inode = status.stx_ino,
                        .birth_ns = has_birth ? status.stx_btime.tv_sec * kPerSecond + status.stx_btime.tv_nsec : 0};
}

// By the clock that files are stamped by, which goes in steps of ms: what is made after it has gone on has a later
// birth.
std::int64_t file_time_now() {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return now.tv_sec * kPerSecond + now.tv_nsec;
}

}  // namespace

std::optional<FileIdentity> FileIdentity::of(const fs::path& path) { return identity_of(AT_FDCWD, path.c_str(), 0); }

FileIdentity FileIdentity::of(int fd) { return identity_of(fd, "", AT_EMPTY_PATH).value_or(FileIdentity{}); }

Result<std::unique_ptr<FollowedFile>> FollowedFile::open(const fs::path& path, const fs::path& shown) {
    const fs::path index_path = trace::index_path(path);
    auto index = open_for_reading(index_path);
    if (!index && !FileIdentity::of(index_path)) return nullptr;
    if (!index) return tl::unexpected(std::move(index).error());
    return std::unique_ptr<FollowedFile>(new FollowedFile(path, shown, *std::move(index)));
}

FollowedFile::FollowedFile(fs::path path, const fs::path& shown, UniqueFd index)
    : name_(shown.string()),
      data_name_(std::move(path)),
      index_name_(trace::index_path(data_name_)),
      index_(std::move(index)),
      identity_(FileIdentity::of(index_.get())) {}

bool FollowedFile::is_replaced() const { return FileIdentity::of(index_name_) != identity_; }

Result<bool> FollowedFile::open_data() {
    if (data_.is_open()) return true;
    auto data = open_for_reading(data_name_);
    if (is_replaced() || (!data && !FileIdentity::of(data_name_))) return false;
    data_ = LEAT_TRY(std::move(data));
    return true;
}

void FollowedFile::close() {
    data_ = UniqueFd();
    if (identity_.birth_ns != 0 && identity_.birth_ns < file_time_now()) index_ = UniqueFd();
}

Result<std::optional<ctf::IndexEntry>> FollowedFile::entry() { return entry_at(position_); }

Result<std::optional<ctf::IndexEntry>> FollowedFile::telling_entry() {
    // If the relay knows nothing of this stream except that it loses packets, we ask again and again.
    constexpr int kMaxUntold = 256;
    std::optional<ctf::IndexEntry> entry;
    std::uint64_t position = trace::kIndexHeaderSize;
    for (int i = 0; i < kMaxUntold; ++i, position += entry_size_) {
        const auto next = LEAT_TRY(entry_at(position));
        if (!next) break;
        entry = next;
        if (!entry->is_lost() || entry->stream_instance_id != ctf::IndexEntry::kUnknown) break;
    }
    return entry;
}

Result<std::optional<ctf::IndexEntry>> FollowedFile::entry_at(std::uint64_t position) {
    std::optional<ctf::IndexEntry> entry;
    if (entry_size_ == 0 && !LEAT_TRY(read_header())) return entry;
    const auto bytes = LEAT_TRY(read_at(index_.get(), position, std::min(entry_size_, kMaxEntrySize)));
    if (bytes.size() == entry_size_) entry = LEAT_TRY(trace::parse_index_entry(bytes));
    return entry;
}

Result<bool> FollowedFile::read_header() {
    const auto header = LEAT_TRY(read_at(index_.get(), 0, trace::kIndexHeaderSize));
    if (header.size() < trace::kIndexHeaderSize) return false;
    entry_size_ = LEAT_TRY(trace::parse_index_header(header));
    return true;
}

std::uint64_t size_of_file(int fd) {
    struct stat status {};
    return ::fstat(fd, &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
}

}  // namespace leat::viewer
