#pragma once

#include <cstdint>
#include <string>

#include "base/byte_cursor.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "ctf/index_format.hpp"
#include "relay/confined_directory.hpp"
#include "wire/moving_lock.hpp"

namespace leat::relay {

// A file of packets and the index beside it, as they grow. Bytes of data may lie behind what the index covers: they
// are not safe to read yet.
class StreamFile {
  public:
    // `number` counts the files of a stream, over all chunks. Creates NAME, and index/NAME.idx if there are to be
    // indexes; `index_minor`: 0 for the short entries of old peers.
    static Result<StreamFile> create(const ConfinedDirectory& trace, const std::string& name, std::uint64_t number,
                                     bool has_index, std::uint32_t index_minor);

    [[nodiscard]] std::uint64_t number() const { return number_; }
    [[nodiscard]] std::uint64_t size() const { return size_; }
    [[nodiscard]] std::uint64_t entries() const { return entries_; }

    // Writes at `offset`, which is at most size(). As many bytes as there is room for on the disk: fewer than given
    // mean that it is full, and that one may try again.
    Result<std::size_t> write(std::uint64_t offset, UntrustedBytes bytes);
    // The same for `count` zeros.
    Result<std::size_t> write_zeros(std::uint64_t offset, std::uint64_t count);
    // Cuts off what lies behind `size`.
    void truncate(std::uint64_t size);
    Result<void> read(std::uint64_t offset, std::span<std::byte> bytes) const;

    // An entry goes in whole or not at all; false: the disk is full. Data up to `safe_end` may be read from now on.
    Result<bool> append_entry(const ctf::IndexEntry& entry, std::uint64_t safe_end);

  private:
    std::uint64_t number_ = 0;
    UniqueFd data_;
    UniqueFd index_;
    wire::MovingLock lock_{};  // on what is not safe to read
    std::uint64_t size_ = 0;
    std::uint64_t entries_ = 0;
    std::uint64_t index_size_ = 0;
    std::size_t entry_size_ = ctf::kIndexEntrySize;
};

// Writes as much as there is room for; other failures than that of a full disk are errors.
Result<std::size_t> write_what_fits(int fd, std::uint64_t offset, UntrustedBytes bytes);

}  // namespace leat::relay
