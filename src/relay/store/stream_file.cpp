#include "relay/store/stream_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "base/file.hpp"
#include "trace/stream_paths.hpp"

namespace leat::relay {
namespace {

using trace::index_name;
using trace::kIndexDirectory;

Result<void> remove_index(const ConfinedDirectory& trace, const std::string& name) {
    const auto indexes = trace.open(kIndexDirectory);
    if (!indexes && is_disk_full(indexes)) return tl::unexpected(indexes.error());
    return indexes ? indexes->remove(index_name(name)) : Result<void>();
}

}  // namespace

// pwrite() may write less than asked for, also when the disk is just full: then the next call says ENOSPC.
Result<std::size_t> write_what_fits(int fd, std::uint64_t offset, UntrustedBytes bytes) {
    std::size_t written = 0;
    while (written < bytes.size()) {
        const ssize_t count =
            ::pwrite(fd, bytes.data() + written, bytes.size() - written, static_cast<off_t>(offset + written));
        if (count > 0) written += static_cast<std::size_t>(count);
        if (count >= 0 || errno == EINTR) continue;
        if (errno == ENOSPC || errno == EDQUOT) break;
        return io_error("cannot write the trace");
    }
    return written;
}

// The index first: it speaks of packets, and a new one tells followers that the file is a new one.
// (docs/formats/sync-file.md)
Result<StreamFile> StreamFile::create(const ConfinedDirectory& trace, const std::string& name, std::uint64_t number,
                                      std::optional<std::uint32_t> index_minor, Existing existing, FileGuard* guard) {
    StreamFile file;
    file.number_ = number;
    Open open;
    if (index_minor) open.index = LEAT_TRY(file.create_index(trace, name, *index_minor, existing));
    if (existing == Existing::kReplaced) LEAT_TRY(trace.remove(name));
    auto data = trace.create_file(name);
    if (!data) {
        // As if nothing had been tried: it may be tried again.
        if (index_minor) (void)remove_index(trace, name);
        return tl::unexpected(std::move(data).error());
    }
    open.data = *std::move(data);
    file.has_name_ = !leat::is_removed(open.data.get());
    file.open_ = std::make_shared<const Open>(std::move(open));
    if (guard != nullptr)
        file.guarded_ =
            guard->guard(file.open_->data.get(), file.open_->index.get(), {.data = 0, .index = file.index_size_});
    if (index_minor) file.lock_ = trace::MovingLock(file.open_->data.get(), 0);
    return file;
}

Result<UniqueFd> StreamFile::create_index(const ConfinedDirectory& trace, const std::string& name, std::uint32_t minor,
                                          Existing existing) {
    const ConfinedDirectory indexes = LEAT_TRY(trace.make(kIndexDirectory));
    if (existing == Existing::kReplaced) LEAT_TRY(indexes.remove(index_name(name)));
    UniqueFd index = LEAT_TRY(indexes.create_file(index_name(name)));
    entry_size_ = minor == 0 ? trace::kIndexEntrySize10 : trace::kIndexEntrySize;
    const auto header = trace::encode_index_header(minor);
    const auto written = write_what_fits(index.get(), 0, header);
    if (!written || *written != header.size()) {
        (void)indexes.remove(index_name(name));
        if (!written) return tl::unexpected(written.error());
        return fail(ErrorKind::kDiskFull, "cannot write the index of {}: the disk is full", name);
    }
    index_size_ = header.size();
    return index;
}

Result<std::shared_ptr<const StreamFile::Open>> StreamFile::open_again(const ConfinedDirectory& trace,
                                                                       const std::string& name) {
    const ConfinedDirectory indexes = LEAT_TRY(trace.open(kIndexDirectory));
    Open open;
    open.data = LEAT_TRY(trace.open_file(name));
    open.index = LEAT_TRY(indexes.open_file(index_name(name)));
    return std::make_shared<const Open>(std::move(open));
}

Result<void> StreamFile::remove(const ConfinedDirectory& trace, const std::string& name) {
    LEAT_TRY(remove_index(trace, name));
    return trace.remove(name);
}

Result<std::size_t> StreamFile::write(std::uint64_t offset, UntrustedBytes bytes) {
    const std::size_t written = LEAT_TRY(write_what_fits(open_->data.get(), offset, bytes));
    note_written(offset + written);
    return written;
}

Result<void> StreamFile::extend(std::uint64_t end) {
    if (::ftruncate(open_->data.get(), static_cast<off_t>(end)) != 0) return io_error("cannot pad the trace");
    note_written(end);
    return {};
}

void StreamFile::truncate(std::uint64_t size) {
    if (size > size_) return;
    // Also what a write has left there that failed in the middle. What cannot be cut off stays behind what the index
    // covers.
    (void)!::ftruncate(open_->data.get(), static_cast<off_t>(size));
    size_ = size;
}

Result<void> StreamFile::read(std::uint64_t offset, std::span<std::byte> bytes) const {
    const auto filled = read_at(open_->data.get(), offset, bytes);
    if (!filled) return wrap("the trace", filled.error());
    if (*filled < bytes.size()) return corrupt("the trace is shorter than what was written");
    return {};
}

void StreamFile::append_entry(const ctf::IndexEntry& entry, std::uint64_t safe_end) {
    const auto bytes = trace::encode_index_entry(entry);
    unflushed_.insert(unflushed_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(entry_size_));
    safe_end_ = std::max(safe_end_, safe_end);
}

// Half of the entries must not stay behind: readers would take the torn one for an entry. So the index is cut back, and
// all of them are written again the next time. The guard and the lock move last, after the entries are on disk.
Result<void> StreamFile::flush() {
    if (unflushed_.empty()) return {};
    const int index = open_->index.get();
    const auto written = write_what_fits(index, index_size_, unflushed_);
    if (!written || *written != unflushed_.size()) {
        (void)!::ftruncate(index, static_cast<off_t>(index_size_));
        if (!written) return tl::unexpected(written.error());
        return fail(ErrorKind::kDiskFull, "cannot write the index: the disk is full");
    }
    index_size_ += unflushed_.size();
    flushed_entries_ += unflushed_.size() / entry_size_;
    unflushed_.clear();
    note_safe(safe_end_);
    lock_.move_to(safe_end_);
    return {};
}

void StreamFile::note_safe(std::uint64_t safe_end) {
    safe_end_ = std::max(safe_end_, safe_end);
    if (guarded_) guarded_->set_sizes({.data = safe_end_, .index = index_size_});
}

void StreamFile::end() {
    guarded_.reset();
    lock_.release();
}

}  // namespace leat::relay
