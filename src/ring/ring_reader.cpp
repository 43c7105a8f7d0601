#include "ring/ring_reader.hpp"

#include <algorithm>
#include <atomic>

#include "base/check.hpp"
#include "base/fault_guard.hpp"
#include "ring/ring_head.hpp"

namespace leat::ring {
namespace {

std::uint64_t load(std::uint64_t& word, std::memory_order order) { return std::atomic_ref(word).load(order); }

}  // namespace

// The pages of records are looked at one by one, before their bytes are.
Result<void> RingReader::check_there(UntrustedBytes records) const {
    if (lost_ == nullptr) return {};
    (void)FaultGuard::touch(records);
    return *lost_ ? file_was_cut_off() : Result<void>();
}

Result<Published> RingReader::published() {
    const auto [head, timestamp, record_count] = LEAT_TRY(look_at_head(*header_));
    LEAT_TRY(check_there({}));
    if (head < head_ || head - tail_ > size_)
        return corrupt("ring claims records up to byte {}, {} were read and it holds {}", head, taken_, size_);
    if (timestamp < last_timestamp_)
        return corrupt("ring's time goes back from {} to {} ns", last_timestamp_, timestamp);
    last_timestamp_ = timestamp;
    head_ = head;
    const auto* records = reinterpret_cast<const std::byte*>(header_) + kPageSize;  // NOLINT(*-reinterpret-cast)
    return Published{head, timestamp, record_count, {records + (taken_ & (size_ - 1)), head - taken_}};
}

void RingReader::take(std::uint64_t head) {
    LEAT_CHECK(taken_ <= head && head <= head_);
    taken_ = head;
}

// Reading is enough for memory of a file, and disturbs no writer. On its first way around, the head gets to pages that
// nobody has touched; up to size_, a position is also a place in the ring:
//
//     0              head_            touched_                       size_
//      | written      | pages exist    | a writer waits for each page |
void RingReader::touch_ahead(std::uint64_t bytes) {
    const std::uint64_t end = std::min(head_ + std::min(bytes, size_), size_);
    const auto* const records =
        reinterpret_cast<const volatile char*>(header_) + kPageSize;  // NOLINT(*-reinterpret-cast)
    for (; touched_ < end; touched_ += kPageSize) (void)records[touched_];
    // Another reader may have brought more of them into being, or one that knew nothing of this all of them.
    const std::atomic_ref published(header_->touched);
    const std::uint64_t there = std::min(touched_, size_);
    if (lost_ == nullptr && published.load(std::memory_order_relaxed) < there)
        published.store(there, std::memory_order_relaxed);
}

std::uint64_t RingReader::wake_to_touch() const {
    return touched_ >= size_ ? ~std::uint64_t{0} : (touched_ - std::min(head_, touched_)) / 2;
}

std::uint64_t RingReader::record_count() const {
    return committed_records(load(header_->head, std::memory_order_acquire),
                             load(header_->next_head, std::memory_order_acquire),
                             load(header_->next_records, std::memory_order_acquire));
}

bool RingReader::has_moved() const { return load(header_->head, std::memory_order_acquire) != head_; }

std::uint64_t RingReader::waiting() const {
    const std::uint64_t head = load(header_->head, std::memory_order_acquire);
    return head - std::min(head, taken_);
}

void RingReader::release(std::uint64_t position, std::uint64_t wake_after) {
    LEAT_CHECK(tail_ <= position);
    taken_ = std::max(taken_, position);
    head_ = std::max(head_, position);
    //     position        taken_                                       position + size
    //      | not stored    | wake_after              | limit            |          writers wake us there
    //      | not stored    | wake_after, or more                        | limit    only a full ring stops them
    const std::uint64_t limit = std::min(taken_ + std::min(wake_after, size_), position + size_);
    tail_ = position;
    // Nothing changes in most rings: then leave the cache line to the writers. A reader that goes on may not have given
    // the room back that the one before it was about to.
    if (load(header_->tail, std::memory_order_relaxed) == position &&
        load(header_->limit, std::memory_order_relaxed) == limit)
        return;
    // C: all reads of the records are done before writers may have their room. Pairs with H, where writers read `limit`
    // or `tail`: in thread_write(), the restartable sequence, make_room() and count_if_full() of careful_record.cpp.
    std::atomic_ref(header_->tail).store(position, std::memory_order_release);
    std::atomic_ref(header_->limit).store(limit, std::memory_order_release);
}

// A limit below tail_ + size_ is the wish. A writer may take it down between our load and our store, which then puts it
// back: one bell more than was wished for, and none is lost.
void RingReader::release(std::uint64_t position) {
    const std::uint64_t limit = load(header_->limit, std::memory_order_relaxed);
    const bool is_armed = limit < tail_ + size_;
    release(position, is_armed ? limit - std::min(limit, taken_) : size_);
}

std::uint64_t RingReader::discarded(DiscardReason reason) const {
    return load(header_->discarded[static_cast<std::uint32_t>(reason)], std::memory_order_relaxed);
}

std::uint64_t RingReader::discarded() const {
    std::uint64_t sum = 0;
    for (std::uint32_t reason = 0; reason < kDiscardReasons; ++reason)
        sum += discarded(static_cast<DiscardReason>(reason));
    return sum;
}

}  // namespace leat::ring
