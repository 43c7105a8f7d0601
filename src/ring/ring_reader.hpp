#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <span>

#include "base/byte_cursor.hpp"
#include "base/result.hpp"
#include "ring/ring_format.hpp"

namespace leat::ring {

// What a ring holds at one moment: published and not yet taken.
struct Published {
    std::uint64_t head;
    std::uint64_t last_timestamp;  // ns; of the last record below head
    std::uint64_t record_count;    // of all records below head, since the start; as untrusted as they are
    UntrustedBytes records;        // valid until release() has passed them
};

// The consumer's side of one ring, by three positions of its own:
//
//     tail_                 taken_               head_               the ring's head
//      | cut into packets    | not cut yet        | published since   |
//      | that are not stored | what published()   | published()       |
//      |                     | gave               | looked            |
//
//     published()   head_ follows the ring's head; [taken_, head_) is there to be read
//     take()        taken_ goes on: these bytes are in a packet, and must hold still until it is stored
//     release()     tail_ goes on: they are stored, and writers may have their room
//
// The memory belongs to applications: every value taken from it is checked, and a ring that lies is an error for good.
// Consumer thread only.
class RingReader {
  public:
    // `header` is the ring as mapped by RingSet, its records behind it twice. `lost`: of a ring in a file, whether that
    // was shortened; its pages are there already. It outlives the reader.
    RingReader(RingHeader& header, std::uint64_t size, const std::atomic<bool>* lost = nullptr)
        : header_(&header), lost_(lost), size_(size), touched_(lost == nullptr ? 0 : size) {}

    // Goes on where another reader has released all below `position`. Before anything else.
    void go_on_at(std::uint64_t position) {
        tail_ = taken_ = head_ = position;
        touched_ = std::max(touched_, position - position % kPageSize);
    }

    // What is there to read; nothing new gives empty records. Fails when the ring lies: quarantine it.
    Result<Published> published();

    // Whether what published() gave is still there: fails once it is lost, also in part. Then it reads as zeros.
    [[nodiscard]] Result<void> check_there(UntrustedBytes records) const;

    // What published() gave up to `head` is not given again. Its room stays taken: the bytes hold still.
    void take(std::uint64_t head);

    // The writers may have the room below `position`, which published() gave; it counts as taken. They wake the
    // consumer when `wake_after` bytes are there that were not taken (0: with the next record; the size of the ring or
    // more: never). A wish to be woken is good for once: call this also when there was nothing to read.
    void release(std::uint64_t position, std::uint64_t wake_after);
    // The same, but a wish to be woken that no writer has met yet stays in force.
    void release(std::uint64_t position);

    // Brings the pages of the `bytes` beyond head into being, so that no writer waits for it. Costs nothing once the
    // writers have been all around the ring.
    void touch_ahead(std::uint64_t bytes);
    // After how many more bytes touch_ahead() should be called again: half of those that it brought; never, once all
    // pages exist.
    [[nodiscard]] std::uint64_t wake_to_touch() const;

    // Records below head by now. For a ring that is not read any more: as untrusted as the rest.
    [[nodiscard]] std::uint64_t record_count() const;

    // Whether records were published since published() looked.
    [[nodiscard]] bool has_moved() const;

    [[nodiscard]] std::uint64_t released() const { return tail_; }
    [[nodiscard]] std::uint64_t taken() const { return taken_; }
    // Bytes that were taken and not released: writers have no room there yet.
    [[nodiscard]] std::uint64_t unreleased() const { return taken_ - tail_; }

    // Event records not written so far, by reason and in all. As untrusted as the rest: only good for counting.
    [[nodiscard]] std::uint64_t discarded(DiscardReason reason) const;
    [[nodiscard]] std::uint64_t discarded() const;

    // Bytes that were published by now, and not taken; as untrusted.
    [[nodiscard]] std::uint64_t waiting() const;

  private:
    RingHeader* header_;
    const std::atomic<bool>* lost_;
    std::uint64_t size_;
    // Our own, not the ring's: what a program writes over the consumer's half of the header harms its writers only.
    std::uint64_t tail_ = 0;   // what was released
    std::uint64_t taken_ = 0;  // tail_ <= taken_ <= head_ <= tail_ + size_
    std::uint64_t head_ = 0;   // as published() last saw it
    std::uint64_t last_timestamp_ = 0;
    std::uint64_t touched_;  // pages below this position exist, if it is less than size_
};

}  // namespace leat::ring
