// The rings of one channel and one user, as they lie in shared memory. See docs/formats/ring.md.
//
// Freestanding: the tracer library includes this.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace leat::ring {

// One memfd holds the rings of a channel:
//
//   0        4096                                    + (4096 + size)
//   | set    | ring 0: header page | records ...     | ring 1: header page | records ...  | ...
//
// Each side maps the records of a ring twice in a row, so that no record wraps for writer or reader:
//
//   | header page | records (size) | the same records again (size) |

inline constexpr uint32_t kRingSetMagic = 0x5254'454c;  // "LETR"
inline constexpr uint32_t kRingSetVersion = 2;
inline constexpr size_t kPageSize = 4096;
inline constexpr uint64_t kMinRingSize = 64U << 10;
inline constexpr uint64_t kMaxRingSize = 1U << 30;
inline constexpr uint32_t kMaxRings = 1U << 16;
// A longer record could not be copied between two interruptions of its writer: it would restart for ever.
inline constexpr uint64_t kMaxRecordSize = 256U << 10;

// A writer may touch this many bytes beyond the record it publishes: it copies in blocks. So it stays that far below
// `limit`, and never touches what the consumer still reads.
inline constexpr uint64_t kCopySlack = 32;

// Why an event record was not written. The order is part of the format.
enum class DiscardReason : uint32_t {
    kRingFull,     // the consumer was slower than the writers
    kTooLarge,     // more than max_record_size()
    kNoRing,       // no thread-owned ring was free, or a CPU number beyond the set
    kInterrupted,  // a signal handler's event while its thread was writing (thread-owned rings only), or staging full
    kBorrowed,     // in a child that runs on its parent's thread (vfork), when no thread-owned ring was free
};
inline constexpr uint32_t kDiscardReasons = 8;  // room for more

// Rings that nobody drains (flight recorder): writers go round and round, over the oldest records, by blocks.
inline constexpr uint32_t kBlocks = 32;      // of a ring
inline constexpr uint32_t kBlockNotes = 64;  // the last so many that were begun

// A consumer that has shown no sign of life for this long (ns) counts as dead: nobody waits for room in its rings.
inline constexpr uint64_t kLongestSilence = 10'000'000'000;

// Written by the daemon before anybody else sees it; of all this, only doorbell, thread_rings_used, heartbeat and
// snapshots_wanted change later. For people and readers of the file: a program takes the geometry from the daemon's
// answer, not from memory that others can write.
struct RingSetHeader {
    uint32_t magic;
    uint32_t version;
    uint64_t ring_size;          // bytes of records; a power of two
    uint32_t cpu_ring_count;     // rings 0 .. cpu_ring_count - 1 belong to CPUs
    uint32_t thread_ring_count;  // the rings behind them are claimed by threads that have no rseq
    // A futex: writers increment it and wake the consumer. Not an eventfd: a program may close or reuse any descriptor
    // at any time, and must then not be written to.
    alignas(64) uint32_t doorbell;
    // Thread-owned rings up to the highest that was ever claimed, raised by the claiming thread before it writes. The
    // consumer looks at no others.
    uint32_t thread_rings_used;
    // When the consumer last showed a sign of life: ns of the shared clock. Whoever waits for room looks here.
    alignas(64) uint64_t heartbeat;
    // Programs count it up when they ask for a snapshot, and ring the doorbell.
    alignas(64) uint32_t snapshots_wanted;
    // 1: whoever claims a thread-owned ring brings all its pages into being first. There may be no memory for them
    // later, and a store would be SIGBUS; the daemon has seen to the rest. (In a file that goes without saying.)
    uint32_t is_promised;
};
static_assert(offsetof(RingSetHeader, doorbell) == 64 && offsetof(RingSetHeader, thread_rings_used) == 68);
static_assert(offsetof(RingSetHeader, heartbeat) == 128 && offsetof(RingSetHeader, snapshots_wanted) == 192);
static_assert(offsetof(RingSetHeader, is_promised) == 196);
static_assert(sizeof(RingSetHeader) == 256);

// Where a block begins: with a record, the first that did not fit into the blocks before.
struct BlockNote {
    uint64_t position;
    uint64_t timestamp;  // ns: of the record in front of it, from which its first one counts
    uint64_t records;    // below `position`, since the start
    uint64_t discarded;  // by then, for all reasons
};
static_assert(sizeof(BlockNote) == 32);

// A ring's header page. Positions count bytes since the start and never wrap; position p lies at byte p mod size.
//
//                  tail        head                           tail + size
//     not armed     | published | free                         | limit
//     armed         | published | free          | limit        |            the writer that gets there rings
//     armed, next   | published | limit                        |            the next record rings
//     full          | published                                | head, limit
//
// Invariants: tail <= head <= tail + size, limit <= tail + size. [tail, head) is published; a reader may copy it at
// leisure. Beyond head nothing is promised: writers copy there, and a killed one leaves half a record.
//
// In overwrite mode there is no tail, and `limit` belongs to the writers: it is where the block ends that they write.
// One that meets it notes where the next block begins, and moves `limit` there:
//
//       limit - size          note k            note k + 1     head       limit
//     gone | may be partly gone | a whole block  | records      | free      |
//
// So nothing behind limit - size is written over: whoever copies a block, and sees afterwards that `limit` has not come
// so far, has it whole.
//
// Three parties write, each into cache lines of its own, so that a writer's commit does not take a line away from the
// consumer. All of it is memory that programs write: a reader believes nothing.
struct RingHeader {
    // The writers of this CPU, or the thread that owns the ring.
    alignas(64) uint64_t head;
    uint64_t last_timestamp;              // ns; stored together with head by one 16-byte store: the commit
    uint64_t discarded[kDiscardReasons];  // event records not written, by reason; only ever incremented, atomically
    // The announcement, stored together before the commit: where head is about to be, and how many records will lie
    // below it. See committed_records().
    uint64_t next_head;
    uint64_t next_records;

    // The consumer.
    alignas(64) uint64_t tail;
    // Writers go on while they stay below: tail + size, or less, to be woken when the records get there. A writer that
    // meets it restores tail + size and rings the doorbell.
    uint64_t limit;
    // Pages of records below this position exist; all, if it is the size of the ring. Writers that read them before
    // they write there have them mapped many at a time.
    uint64_t touched;

    // Thread-owned rings: the PID namespace (high half) and thread ID of the owner; 0 is nobody.
    alignas(64) uint64_t owner;
    // Channels that block: a writer has waited for room for as long as it may, in vain, while tail was this less 1.
    // Until tail moves, no other one waits. 0: none has.
    uint64_t gave_up_at;

    // Overwrite mode: block number n is noted at n mod kBlockNotes, where it ends at (n + 1) * block_size(). Written
    // before `limit`.
    alignas(1024) BlockNote blocks[kBlockNotes];
};
static_assert(offsetof(RingHeader, head) % 16 == 0 && offsetof(RingHeader, last_timestamp) == 8);
static_assert(offsetof(RingHeader, discarded) == 16 && offsetof(RingHeader, next_head) == 80);
static_assert(offsetof(RingHeader, next_records) == 88, "one 16-byte store with next_head");
static_assert(offsetof(RingHeader, tail) == 128);
static_assert(offsetof(RingHeader, limit) == 136 && offsetof(RingHeader, touched) == 144);
static_assert(offsetof(RingHeader, owner) == 192);
static_assert(offsetof(RingHeader, gave_up_at) == 200);
static_assert(offsetof(RingHeader, blocks) == 1024 && sizeof(RingHeader) == 3072 && sizeof(RingHeader) <= kPageSize);

constexpr uint64_t file_stride(uint64_t ring_size) { return kPageSize + ring_size; }
constexpr uint64_t map_stride(uint64_t ring_size) { return kPageSize + 2 * ring_size; }
constexpr uint64_t file_offset(uint64_t ring_size, uint32_t ring) { return kPageSize + ring * file_stride(ring_size); }
constexpr uint64_t file_size(uint64_t ring_size, uint32_t ring_count) { return file_offset(ring_size, ring_count); }

constexpr bool is_valid_ring_size(uint64_t size) {
    return size >= kMinRingSize && size <= kMaxRingSize && (size & (size - 1)) == 0;
}
constexpr uint64_t block_size(uint64_t ring_size) { return ring_size / kBlocks; }
// Bytes of contexts and payload.
constexpr uint64_t max_record_size(uint64_t ring_size) {
    return ring_size / 4 < kMaxRecordSize ? ring_size / 4 : kMaxRecordSize;
}

// How many records lie below `head`, since the start. A writer announces its record in {next_head, next_records} and
// then commits it; one that was killed or restarted in between leaves an announcement that nothing followed:
//
//                      next_head, next_records   head
//     at rest          h, n                      h       next_head == head: n
//     announced        h + size, n + 1           h       next_head != head: one less than announced, n
//     committed        h + size, n + 1           h + size                   n + 1
//
// No record is empty, so an announcement always differs from head.
constexpr uint64_t committed_records(uint64_t head, uint64_t next_head, uint64_t next_records) {
    return next_head == head ? next_records : next_records - 1;
}

}  // namespace leat::ring
