#include "ring/thread_writer.hpp"

#include <string.h>

// 32-bit programs are compiled for the processors that daemons run on: those have SSE2.
#if !defined(__x86_64__) && !(defined(__i386__) && defined(__SSE2__))
#error "commit() needs a version for this architecture"
#endif
#include <immintrin.h>

#include "ring/sanitizers.hpp"

#if defined(LEAT_THREAD_SANITIZER)
#include <sanitizer/tsan_interface.h>
#endif

namespace leat::ring {
namespace {

// Two neighbouring words by one 16-byte store.
void store_pair(uint64_t* first_word, uint64_t first, uint64_t second) {
    const __m128i pair = _mm_set_epi64x(static_cast<long long>(second), static_cast<long long>(first));
    __asm__ volatile("movaps %1, %0" : "=m"(*reinterpret_cast<__m128i*>(first_word)) : "x"(pair) : "memory");  // NOLINT
}

// Announces the record, then commits it; committed_records() draws the states. A process killed before the commit
// leaves nothing, after it everything.
// A: the record's bytes become visible before the head that covers them (x86 keeps the order of stores). Pairs with B
// in look_at_head().
void commit(RingHeader& ring, uint64_t head, uint64_t timestamp) {
    const uint64_t records = committed_records(ring.head, ring.next_head, ring.next_records) + 1;
#if defined(LEAT_THREAD_SANITIZER)
    __tsan_release(&ring.head);  // it does not see the stores below
#endif
    store_pair(&ring.next_head, head, records);
    store_pair(&ring.head, head, timestamp);
}

// Overwrite mode: notes where the next block begins, as the sequence does, and goes on there.
// AG: the note is there before the limit. Pairs with AH in BlockReader::limit().
void begin_block(const RingMap& map, RingHeader& ring) {
    const uint64_t blocks_end = ring.head & ~(map.block_size - 1);
    const uint64_t limit = ring.limit < blocks_end ? blocks_end : ring.limit;
    uint64_t discarded = 0;
    for (uint64_t& reason : ring.discarded) discarded += __atomic_load_n(&reason, __ATOMIC_RELAXED);
    // Word by word: a reader may be looking at the note that was there 64 blocks ago.
    BlockNote& note = ring.blocks[limit / map.block_size % kBlockNotes];
    const auto put = [](uint64_t& word, uint64_t value) { __atomic_store_n(&word, value, __ATOMIC_RELAXED); };
    put(note.position, ring.head);
    put(note.timestamp, ring.last_timestamp);
    put(note.records, committed_records(ring.head, ring.next_head, ring.next_records));
    put(note.discarded, discarded);
    __atomic_store_n(&ring.limit, limit + map.block_size, __ATOMIC_RELEASE);
}

}  // namespace

WriteOutcome thread_write(const RecordWriter& writer, RingHeader& ring, uint32_t id, const void* payload, uint64_t size,
                          uint64_t now) {
    const HeaderForm& form = writer.map.form;
    const uint64_t last = ring.last_timestamp;
    if (now < last) now = last;  // a reader gives up a ring whose time goes back
    const bool is_extended = id >= form.tag || now - last >= form.gap_limit;
    const uint64_t header_size = is_extended ? form.extended_size : form.short_size;
    const uint64_t end = ring.head + header_size + writer.context_size + size;
    if (writer.map.overwrites())
        for (uint32_t i = 0; i < kBlocks && ring.limit != 0 && end + kCopySlack > ring.limit; ++i)
            begin_block(writer.map, ring);
    // H: who sees the room sees that its records are read. Pairs with C in RingReader::release().
    //
    //     head                         end
    //      | header | record            | slack     | limit     room: the copy ends within the slack
    //      | header | record            | slack | limit         none, although the record alone would fit
    if (end + kCopySlack > __atomic_load_n(&ring.limit, __ATOMIC_ACQUIRE)) return WriteOutcome::kNoRoom;

    char* at =
        reinterpret_cast<char*>(&ring) + kPageSize + (ring.head & writer.map.mask);  // NOLINT(*-reinterpret-cast)
    if (is_extended) {
        memcpy(at, &form.tag, sizeof form.tag);
        memcpy(at + header_size - sizeof now, &now, sizeof now);
        memcpy(at + form.tag_size, &id, sizeof id);
    } else {
        const uint64_t short_form = id + (now & form.time_mask) * form.timestamp_factor;
        memcpy(at, &short_form, sizeof short_form);
    }
    memcpy(at + header_size, writer.contexts, writer.context_size);
    memcpy(at + header_size + writer.context_size, payload, size);
    commit(ring, end, now);
    return WriteOutcome::kWritten;
}

}  // namespace leat::ring
