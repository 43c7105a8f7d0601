#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/byte_cursor.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "ctf/index_format.hpp"
#include "relay/confined_directory.hpp"
#include "relay/file_guard.hpp"
#include "wire/moving_lock.hpp"

namespace leat::relay {

// A file of packets and the index beside it, as they grow. Bytes of data may lie behind what the index covers: they
// are not safe to read yet.
class StreamFile {
  public:
    struct Parameters {
        std::string name{};
        std::uint64_t number = 0;  // counts the files of a stream, over all chunks
        bool has_index = true;
        std::uint32_t index_minor = ctf::kIndexMinor;  // 0: short entries, for old peers
        // If we are killed, it cuts off what is not safe to read: a packet of which only a part is there makes
        // babeltrace2 refuse the whole trace. May be null.
        FileGuard* guard = nullptr;
        // Writes over the file of that name, if there is one and it can be guarded, instead of beginning a new one: the
        // system's memory for its bytes is used again, and to get and give back that memory costs more than all the
        // rest of a relay's work. What is left of the old file behind the new bytes goes at seal().
        bool is_reused = false;
    };
    // Creates NAME, and index/NAME.idx if there are to be indexes.
    static Result<StreamFile> create(const ConfinedDirectory& trace, const Parameters& parameters);

    [[nodiscard]] std::uint64_t number() const { return number_; }
    [[nodiscard]] std::uint64_t size() const { return size_; }

    // Writes at `offset`, which is at most size(). As many bytes as there is room for on the disk: fewer than given
    // mean that it is full, and that one may try again.
    Result<std::size_t> write(std::uint64_t offset, UntrustedBytes bytes);
    // For those who write by themselves: where, and how far they came.
    [[nodiscard]] int fd() const { return data_.get(); }
    void note_written(std::uint64_t end) { size_ = std::max(size_, end); }
    // write() for `count` zeros.
    Result<std::size_t> write_zeros(std::uint64_t offset, std::uint64_t count);
    // Cuts off what lies behind `size`.
    void truncate(std::uint64_t size);
    // Nothing will be written behind size() any more.
    void seal();
    Result<void> read(std::uint64_t offset, std::span<std::byte> bytes) const;

    // Entries gather, and go to disk together. Behind flush(), data up to the largest `safe_end` may be read.
    void append_entry(const ctf::IndexEntry& entry, std::uint64_t safe_end);
    [[nodiscard]] std::size_t unflushed() const { return unflushed_.size(); }  // bytes
    // All or nothing; false: the disk is full.
    Result<bool> flush();
    // The same where there are no indexes.
    void note_safe(std::uint64_t safe_end);

  private:
    Result<void> create_index(const ConfinedDirectory& trace, const Parameters& parameters);
    void reopen(const ConfinedDirectory& trace, const Parameters& parameters);

    std::uint64_t number_ = 0;
    UniqueFd data_;
    UniqueFd index_;
    wire::MovingLock lock_{};  // on what is not safe to read
    std::uint64_t size_ = 0;
    std::uint64_t old_size_ = 0;  // of the file that is written over
    std::optional<FileGuard::Guarded> guarded_{};
    std::uint64_t index_size_ = 0;
    std::vector<std::byte> unflushed_{};  // entries
    std::uint64_t safe_end_ = 0;
    std::size_t entry_size_ = ctf::kIndexEntrySize;
};

// Writes as much as there is room for; other failures than that of a full disk are errors.
Result<std::size_t> write_what_fits(int fd, std::uint64_t offset, UntrustedBytes bytes);

}  // namespace leat::relay
