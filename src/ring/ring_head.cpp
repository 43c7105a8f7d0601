#include "ring/ring_head.hpp"

#include <atomic>

namespace leat::ring {

Result<RingHead> look_at_head(RingHeader& header) {
    const auto load = [](std::uint64_t& word) { return std::atomic_ref(word).load(std::memory_order_acquire); };
    for (int look = 0; look < kMaxLooks; ++look) {
        // B: every byte below `head` is visible from here on. Pairs with A in thread_writer.cpp's commit() and in
        // rseq_sequence_x86_64.inc, the last store of the restartable sequence. The loads of the other words are
        // acquired, too, which keeps them in this order.
        const std::uint64_t head = load(header.head);
        const std::uint64_t timestamp = load(header.last_timestamp);
        const std::uint64_t next_head = load(header.next_head);
        const std::uint64_t next_records = load(header.next_records);
        // Every commit moves head: the same head again means that the timestamp is its own. The same next_head again
        // means that the two words of the announcement belong together.
        if (load(header.next_head) != next_head || load(header.head) != head) continue;
        if (timestamp > kMaxTime) return corrupt("ring's time, {} ns, cannot be", timestamp);
        return RingHead{head, timestamp, committed_records(head, next_head, next_records)};
    }
    return corrupt("ring's head does not hold still");
}

}  // namespace leat::ring
