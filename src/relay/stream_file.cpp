#include "relay/stream_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace leat::relay {

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

Result<StreamFile> StreamFile::create(const ConfinedDirectory& trace, const Parameters& parameters) {
    StreamFile file;
    file.number_ = parameters.number;
    // First: an old index is gone before the packets that it speaks of.
    if (parameters.has_index) LEAT_TRY(file.create_index(trace, parameters));
    if (parameters.is_reused && parameters.guard != nullptr) file.reopen(trace, parameters);
    if (!file.data_.is_open()) {
        file.data_ = LEAT_TRY(trace.create_file(parameters.name));
        if (parameters.guard != nullptr) file.guarded_ = parameters.guard->guard(file.data_.get());
    }
    if (parameters.has_index && !file.lock_.is_held()) file.lock_ = wire::MovingLock(file.data_.get(), 0);
    return file;
}

Result<void> StreamFile::create_index(const ConfinedDirectory& trace, const Parameters& parameters) {
    const ConfinedDirectory indexes = LEAT_TRY(trace.make("index"));
    index_ = LEAT_TRY(indexes.create_file(parameters.name + ".idx"));
    entry_size_ = parameters.index_minor == 0 ? ctf::kIndexEntrySize10 : ctf::kIndexEntrySize;
    const auto header = ctf::encode_index_header(parameters.index_minor);
    if (LEAT_TRY(write_what_fits(index_.get(), 0, header)) != header.size())
        return fail(ErrorKind::kIo, "cannot write the trace: the disk is full");
    index_size_ = header.size();
    return {};
}

// Only if nobody who cooperates is reading it: readers hold locks.
void StreamFile::reopen(const ConfinedDirectory& trace, const Parameters& parameters) {
    auto old = trace.open_file(parameters.name, O_RDWR);
    struct stat status {};
    if (!old || ::fstat(old->get(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_nlink != 1) return;
    lock_ = wire::MovingLock(old->get(), 0);
    if (!lock_.is_held()) return;
    guarded_ = parameters.guard->guard(old->get());
    if (!guarded_) {
        lock_ = {};
        return;
    }
    data_ = *std::move(old);
    old_size_ = static_cast<std::uint64_t>(status.st_size);
}

void StreamFile::seal() {
    if (old_size_ > size_) truncate(size_);
    old_size_ = 0;
    guarded_.reset();
}

Result<std::size_t> StreamFile::write(std::uint64_t offset, UntrustedBytes bytes) {
    const std::size_t written = LEAT_TRY(write_what_fits(data_.get(), offset, bytes));
    note_written(offset + written);
    return written;
}

Result<std::size_t> StreamFile::write_zeros(std::uint64_t offset, std::uint64_t count) {
    static constexpr std::array<std::byte, 4096> kZeros{};
    return write(offset, UntrustedBytes(kZeros).first(static_cast<std::size_t>(std::min<std::uint64_t>(count, 4096))));
}

void StreamFile::truncate(std::uint64_t size) {
    // What cannot be cut off stays behind what the index covers.
    (void)!::ftruncate(data_.get(), static_cast<off_t>(size));
    size_ = size;
}

Result<void> StreamFile::read(std::uint64_t offset, std::span<std::byte> bytes) const {
    while (!bytes.empty()) {
        const ssize_t count = ::pread(data_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return io_error("cannot read the trace back");
        offset += static_cast<std::uint64_t>(count);
        bytes = bytes.subspan(static_cast<std::size_t>(count));
    }
    return {};
}

void StreamFile::append_entry(const ctf::IndexEntry& entry, std::uint64_t safe_end) {
    const auto bytes = ctf::encode_index_entry(entry);
    unflushed_.insert(unflushed_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(entry_size_));
    safe_end_ = std::max(safe_end_, safe_end);
}

Result<bool> StreamFile::flush() {
    if (unflushed_.empty()) return true;
    if (LEAT_TRY(write_what_fits(index_.get(), index_size_, unflushed_)) != unflushed_.size()) {
        (void)!::ftruncate(index_.get(), static_cast<off_t>(index_size_));
        return false;
    }
    index_size_ += unflushed_.size();
    unflushed_.clear();
    note_safe(safe_end_);
    lock_.move_to(safe_end_);
    return true;
}

void StreamFile::note_safe(std::uint64_t safe_end) {
    if (guarded_) guarded_->set_size(safe_end);
}

}  // namespace leat::relay
