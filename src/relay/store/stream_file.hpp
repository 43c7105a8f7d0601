#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/byte_cursor.hpp"
#include "base/file.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "relay/store/confined_directory.hpp"
#include "relay/store/file_guard.hpp"
#include "trace/index_format.hpp"
#include "trace/moving_lock.hpp"

namespace leat::relay {

// A file of packets and the index beside it, as they grow.
//
//     data      | packets with entries on disk | entries in memory | arriving, or waiting |
//               0                          guarded             safe_end()              size()
//
//     index     | header | entries on disk |                        entries in memory: unflushed()
//               0                      index_size_
//
// Followers of the directory may read data below the lock, which moves with each flush; all beyond it is write-locked.
// If the relay is killed, the guard cuts the file at the same place, and the index behind its entries of that: a reader
// never meets half a packet, nor an entry of what is not there.
class StreamFile {
  public:
    // Its descriptors, which viewers share with the writer: as long as somebody has them, they are this file's.
    struct Open {
        UniqueFd data;
        UniqueFd index;
    };

    // Creates NAME, and index/NAME.idx if there are to be indexes (`index_minor` 0: of short entries, for old peers).
    // `number` counts the files of a stream, over all chunks. If we are killed, `guard` cuts off what is not safe to
    // read; it may be null. If there are such files, they are refused or replaced: those who have them open keep them.
    enum class Existing : std::uint8_t { kRefused, kReplaced };
    static Result<StreamFile> create(const ConfinedDirectory& trace, const std::string& name, std::uint64_t number,
                                     std::optional<std::uint32_t> index_minor, Existing existing = Existing::kRefused,
                                     FileGuard* guard = nullptr);
    // For reading.
    static Result<std::shared_ptr<const Open>> open_again(const ConfinedDirectory& trace, const std::string& name);
    static Result<void> remove(const ConfinedDirectory& trace, const std::string& name);

    [[nodiscard]] std::uint64_t number() const { return number_; }
    [[nodiscard]] std::uint64_t size() const { return size_; }
    [[nodiscard]] const std::shared_ptr<const Open>& open() const { return open_; }
    // Kept as long as the file is open, or until another one is kept: what its descriptors count against.
    void keep_place(std::shared_ptr<void> place) { place_ = std::move(place); }
    // Its name has gone, as far as the file system tells.
    [[nodiscard]] bool is_removed() const { return has_name_ && leat::is_removed(open_->data.get()); }

    // Writes at `offset`, which is at most size(). As many bytes as there is room for on the disk: fewer than given
    // mean that it is full, and that one may try again.
    Result<std::size_t> write(std::uint64_t offset, UntrustedBytes bytes);
    // For those who write by themselves: how far they came.
    void note_written(std::uint64_t end) { size_ = std::max(size_, end); }
    // Zeros up to there, which take no room on the disk and no time: a hole.
    Result<void> extend(std::uint64_t end);
    // What lies behind `size` goes.
    void truncate(std::uint64_t size);
    Result<void> read(std::uint64_t offset, std::span<std::byte> bytes) const;

    // Entries gather, and go to disk together. Behind flush(), data up to the largest `safe_end` may be read.
    void append_entry(const ctf::IndexEntry& entry, std::uint64_t safe_end);
    // Where there are no indexes.
    void note_safe(std::uint64_t safe_end);
    [[nodiscard]] std::uint64_t safe_end() const { return safe_end_; }
    [[nodiscard]] std::uint64_t flushed_entries() const { return flushed_entries_; }
    [[nodiscard]] std::size_t unflushed() const { return unflushed_.size(); }  // bytes
    // All or nothing; kDiskFull: nothing.
    Result<void> flush();
    // Nothing more comes: readers need not wait for it.
    void end();

  private:
    Result<UniqueFd> create_index(const ConfinedDirectory& trace, const std::string& name, std::uint32_t minor,
                                  Existing existing);

    std::uint64_t number_ = 0;
    std::shared_ptr<void> place_{};  // goes after the descriptors
    std::shared_ptr<const Open> open_{};
    trace::MovingLock lock_{};  // on what is not safe to read
    std::optional<FileGuard::Guarded> guarded_{};
    bool has_name_ = false;  // had one when it was made: some file systems say of all files that they have none
    std::uint64_t size_ = 0;
    std::uint64_t index_size_ = 0;
    std::uint64_t flushed_entries_ = 0;
    std::vector<std::byte> unflushed_{};  // entries
    std::uint64_t safe_end_ = 0;
    std::size_t entry_size_ = trace::kIndexEntrySize;
};

// Writes as much as there is room for; other failures than that of a full disk are errors.
Result<std::size_t> write_what_fits(int fd, std::uint64_t offset, UntrustedBytes bytes);

}  // namespace leat::relay
