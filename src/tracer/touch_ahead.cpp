#include "tracer/touch_ahead.hpp"

#include "tracer/channel.hpp"
#include "tracer/process_page.hpp"

namespace leat::tracer {
namespace {

// How many bytes from this position on are in pages that exist, as far as this is known; kTouchedAhead at most.
uint64_t bytes_that_exist(const ring::RingHeader& ring, uint64_t size, uint64_t at) {
    const uint64_t touched = __atomic_load_n(&ring.touched, __ATOMIC_RELAXED);
    if (touched >= size || (touched > at && touched - at >= kTouchedAhead)) return kTouchedAhead;
    return touched > at ? touched - at : 0;
}

// From this page on, the bytes that the kernel maps with it: up to the next boundary in the address space.
uint64_t bytes_mapped_with(const char* page) {
    const auto address = reinterpret_cast<uintptr_t>(page);  // NOLINT(*-reinterpret-cast)
    return kMappedAtOnce - (address & (kMappedAtOnce - 1));
}

}  // namespace

// It reads, which disturbs no writer, and only pages that exist: it makes none.
//
//     at    head      end                                to
//      | page          |         | one page of each 64 KiB |
//
// What the header says is not to be trusted: a position is never more than a place in the ring. Threads that do this at
// once read a page twice, or leave one to its writer.
void touch_ahead(const Channel& channel, uint32_t cpu) {
    // V, as in map_ring().
    const ring::RingHeader* const ring = __atomic_load_n(&channel.mapped[cpu], __ATOMIC_ACQUIRE);
    if (ring == nullptr || channel.is_populated) return;
    const char* const records = reinterpret_cast<const char*>(ring) + ring::kPageSize;  // NOLINT(*-reinterpret-cast)
    const uint64_t size = channel.map.size();
    TouchedAhead& touched = channel.touched[cpu];
    const bool is_begun = has_touched(channel, cpu);
    uint64_t left = is_begun ? __atomic_load_n(&touched.left, __ATOMIC_RELAXED) : size;
    if (left == 0) return;
    const uint64_t head = __atomic_load_n(&ring->head, __ATOMIC_RELAXED);
    const uint64_t at = head - head % ring::kPageSize;
    const uint64_t to = at + bytes_that_exist(*ring, size, at);
    uint64_t end = is_begun ? __atomic_load_n(&touched.end, __ATOMIC_RELAXED) : at;
    if (static_cast<int64_t>(end - at) < 0) end = at;  // the head has overtaken it
    while (left != 0 && static_cast<int64_t>(end - to) < 0) {
        const uint64_t place = end & channel.map.mask;
        (void)__atomic_load_n(records + place, __ATOMIC_RELAXED);
        const uint64_t up_to_wrap = size - place < left ? size - place : left;
        const uint64_t mapped = bytes_mapped_with(records + place);
        const uint64_t step = mapped < up_to_wrap ? mapped : up_to_wrap;
        end += step;
        left -= step;
    }
    __atomic_store_n(&touched.end, end, __ATOMIC_RELAXED);
    __atomic_store_n(&touched.left, left, __ATOMIC_RELAXED);
    __atomic_store_n(&touched.process, process_number(), __ATOMIC_RELAXED);
}

bool has_touched(const Channel& channel, uint32_t cpu) {
    return __atomic_load_n(&channel.touched[cpu].process, __ATOMIC_RELAXED) == process_number();
}

}  // namespace leat::tracer
