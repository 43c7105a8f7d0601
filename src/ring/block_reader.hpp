#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "ring/ring_format.hpp"

namespace leat::ring {

// Reads a ring in overwrite mode, from outside, while its writers go on: it takes nothing from them, and writes
// nothing. What it finds is as untrusted as all that programs write; here, only positions are checked.
class BlockReader {
  public:
    // As a RingReader's.
    BlockReader(RingHeader& header, std::uint64_t size, const std::atomic<bool>* lost = nullptr)
        : header_(&header), lost_(lost), size_(size) {}

    // Where blocks begin that are still there, and at the end where the next record will: so one more than there are
    // blocks, and none is empty. In order; nothing, if the ring was never written to.
    [[nodiscard]] Result<std::vector<BlockNote>> notes() const;

    // Copies the records from one position to another, both of them notes() or between two of those, to the end of
    // `copy`. False: writers have gone over them meanwhile, or their file was shortened, and nothing is appended.
    [[nodiscard]] bool copy(std::uint64_t from, std::uint64_t to, std::vector<std::byte>& copy) const;

    [[nodiscard]] std::uint64_t head() const;
    // Event records not written so far; as untrusted.
    [[nodiscard]] std::uint64_t discarded(DiscardReason reason) const;

    // Brings all pages into being, so that no writer waits for one.
    void touch() const;

  private:
    [[nodiscard]] Result<BlockNote> end() const;
    [[nodiscard]] std::uint64_t limit() const;
    [[nodiscard]] std::uint64_t oldest_below(std::uint64_t limit) const;
    [[nodiscard]] Result<std::vector<BlockNote>> notes_between(std::uint64_t oldest, std::uint64_t limit,
                                                               const BlockNote& end) const;

    [[nodiscard]] bool was_lost() const { return lost_ != nullptr && *lost_; }

    RingHeader* header_;
    const std::atomic<bool>* lost_;
    std::uint64_t size_;
};

}  // namespace leat::ring
