// The writer of CPU-owned rings: one restartable sequence ([linux-rseq]) reserves, stamps, copies and publishes a
// record.
//
// Freestanding: the tracer library includes this. The sequence itself is rseq_sequence_ARCH.inc; docs/formats/ring.md
// has it as pseudo-code. The library's own functions find the writer within the sequence (tracer/write_ARCH.S).
#pragma once

#include <stdint.h>

#include "ring/clock_page.hpp"
#include "ring/event_header.hpp"
#include "ring/ring_format.hpp"

namespace leat::ring {

// Whether there is such a sequence for this architecture. Without it threads own their rings: rseq_writer_none.cpp.
#if defined(__x86_64__)
inline constexpr bool kHasSequence = true;
#else
inline constexpr bool kHasSequence = false;
#endif

enum class WriteOutcome : uint32_t {
    kWritten = 0,
    kNoRoom = 1,   // the record would cross `limit`: the ring is full, or the consumer wants to be woken. In overwrite
                   // mode: it is a text that is too long, or does not fit into what is left of a block
    kNoRing = 2,   // this CPU has no ring, or none that is mapped; or the thread has no rseq area
    kChanged = 3,  // the word is not what the caller saw: somebody has switched the tracepoint; or the writer is not
                   // the channel's any more
    kNoTime = 4,   // the clock page says kSystem, and no time was given
};

// Where a process has mapped the rings of a set, and how records begin there. The sequence knows the places of its
// members: rseq_writer_offsets.h.
struct RingMap {
    RingHeader* const* rings;  // where each is mapped, those of CPUs first; nullptr: not yet
    uint64_t mask;             // size - 1
    const ClockPage* clock;
    int64_t rseq_offset;  // from the thread pointer to the kernel's struct rseq
    uint32_t cpu_ring_count;
    uint32_t thread_ring_count;
    HeaderForm form;
    // Overwrite mode: bytes of a block, and 2^64 divided by that. Else 0.
    uint64_t block_size = 0;
    uint64_t block_factor = 0;

    [[nodiscard]] uint64_t size() const { return mask + 1; }
    [[nodiscard]] bool overwrites() const { return block_size != 0; }
    void overwrite() {
        block_size = ring::block_size(size());
        block_factor = ~uint64_t{0} / block_size + 1;
    }
};

// Which event a record is of: its id, and the number of the channel whose id that is.
//
//     | channel | id     |
//     63       32        0
using EventKey = uint64_t;

constexpr EventKey event_key(uint32_t channel, uint32_t id) { return uint64_t{channel} << 32 | id; }
constexpr uint32_t channel_of(EventKey event) { return static_cast<uint32_t>(event >> 32); }

// A payload with one text in it: {head, chars up to and including a NUL, tail}. Head and tail are readable for
// kCopySlack bytes beyond their ends.
struct TextPayload {
    const char* chars;
    const void* head;
    uint64_t head_size;
    const void* tail;
    uint64_t tail_size;

    // Bytes, with an empty text.
    [[nodiscard]] uint64_t least_size() const { return head_size + 1 + tail_size; }
};
// The sequence takes no longer texts: with one that never ends, it would begin again for ever.
inline constexpr uint64_t kMaxText = 4096;

// A payload of at most 16 bytes, in a register. What follows it there does not matter.
using PayloadWords = uint64_t __attribute__((vector_size(16)));

// The line of a clock page that a writer's last record went by, which the sequence keeps here: so the next one has one
// cache line less to read, and nothing to choose.
struct WriterClock {
    static constexpr uint64_t kUnknown = ~uint64_t{0};

    uint64_t generation = kUnknown;  // of the page, and its source: the TSC
    uint64_t factor = 0;             // ns per TSC cycle, 0.64 fixed point
    uint64_t tsc_base = 0;
    uint64_t ns_base = 0;
};

// What the owner of a writer looks at first, for each event: here, it costs no cache line of its own. See
// tracer/thread_state.hpp.
struct OwnersPart {
    uint64_t ready_key = ~uint64_t{0};
    uint64_t actions = 0;
    uint32_t others = 0;
    uint32_t second_list = 0;
};

// What a thread's records in one set of rings have in common: the rings, and contexts. Contexts are packed; more of
// them than there is room for go on behind this struct, where 16 bytes more than they need are readable.
inline constexpr uint32_t kContextRoom = 32;
struct RecordWriter {
    RingMap map;
    uint64_t context_size;  // bytes
    uint64_t system_time;   // ns, used when the clock page says kSystem; 0: ask for it by kNoTime
    uint32_t channel;       // the number of the channel whose rings these are
    OwnersPart owners{};
    WriterClock clock_line{};  // of map.clock: unknown again if that becomes another page, and in a copy, as a signal
                               // handler's record may have changed it meanwhile
    alignas(16) char contexts[kContextRoom];
};

// Writes one record {event header, contexts, `size` bytes at `payload`} into the ring of the CPU that we are on.
//
// `payload` is readable for kCopySlack bytes beyond its end. `*word` is read again inside the sequence and must be
// `expected`, so that a thread that was stopped for an hour between its test and its record does not write what nobody
// asks for any more. For the same reason, the writer's channel must be the event's: a signal handler may come between
// the caller's choice of a writer and the sequence, and fill the writer in for another channel. Any thread that has
// rseq; async-signal-safe.
//
// Killed before the last store, the record was never there; after it, it is whole. Sanitizers and valgrind do not
// see into it. A debugger that steps through it restarts it for ever.
extern "C" WriteOutcome leat_rseq_write(RecordWriter* writer, EventKey event, const uint32_t* word, const void* payload,
                                        uint64_t size, uint32_t expected);

}  // namespace leat::ring
