// The writer of CPU-owned rings: one restartable sequence ([linux-rseq]) reserves, stamps, copies and publishes a
// record.
//
// Freestanding: the tracer library includes this. The sequence itself is rseq_writer_ARCH.S; docs/formats/ring.md has
// it as pseudo-code.
#pragma once

#include <stdint.h>

#include "ring/clock_page.hpp"
#include "ring/event_header.hpp"
#include "ring/ring_format.hpp"

namespace leat::ring {

enum class WriteOutcome : uint32_t {
    kWritten = 0,
    kNoRoom = 1,   // the record would cross `limit`: the ring is full, or the consumer wants to be woken
    kNoRing = 2,   // this CPU has no ring, or the thread has no rseq area
    kChanged = 3,  // the word is not what the caller saw: somebody has switched the tracepoint; or the writer is not
                   // the channel's any more
    kNoTime = 4,   // the clock page says kSystem, and no time was given
};

// Where a process has mapped the rings of a set, and how records begin there. The sequence knows the places of its
// members: rseq_writer_offsets.h.
struct RingMap {
    char* base;       // of ring 0's header page
    uint64_t stride;  // from ring to ring: map_stride(size)
    uint64_t mask;    // size - 1
    const ClockPage* clock;
    int64_t rseq_offset;  // from the thread pointer to the kernel's struct rseq
    uint32_t cpu_ring_count;
    uint32_t thread_ring_count;
    HeaderForm form;

    [[nodiscard]] RingHeader* ring(uint32_t index) const {
        return reinterpret_cast<RingHeader*>(base + index * stride);  // NOLINT(*-reinterpret-cast)
    }
    [[nodiscard]] uint64_t size() const { return mask + 1; }
};

// Which event a record is of: its id, and the number of the channel whose id that is.
//
//     | channel | id     |
//     63       32        0
using EventKey = uint64_t;

constexpr EventKey event_key(uint32_t channel, uint32_t id) { return uint64_t{channel} << 32 | id; }
constexpr uint32_t channel_of(EventKey event) { return static_cast<uint32_t>(event >> 32); }

struct RecordWriter;
// Called for a record that was not written, with what the writer was given; the last argument is why, instead of what
// the word was.
using NotWritten = void(const RecordWriter* writer, EventKey event, const uint32_t* word, const void* payload,
                        uint64_t size, WriteOutcome outcome);

// What a thread's records in one set of rings have in common: the rings, and contexts. Contexts are packed; more of
// them than there is room for go on behind this struct, where 16 bytes more than they need are readable.
inline constexpr uint32_t kContextRoom = 32;
struct RecordWriter {
    RingMap map;
    uint64_t context_size;    // bytes
    uint64_t system_time;     // ns, used when the clock page says kSystem; 0: ask for it by kNoTime
    NotWritten* not_written;  // nullptr: the result tells
    uint32_t channel;         // the number of the channel whose rings these are
    alignas(16) char contexts[kContextRoom];
};

// Writes one record {event header, contexts, `size` bytes at `payload`} into the ring of the CPU that we are on.
//
// `payload` is readable for kCopySlack bytes beyond its end. `*word` is read again inside the sequence and must be
// `expected`, so that a thread that was stopped for an hour between its test and its record does not write what nobody
// asks for any more. For the same reason, the writer's channel must be the event's: a signal handler may come between
// the caller's choice of a writer and the sequence, and fill the writer in for another channel. If there is a
// `not_written`, it gets what is not written, and returns to the caller: so the caller has nothing to keep for it, and
// may end here itself. Any thread that has rseq; async-signal-safe.
//
// Killed before the last store, the record was never there; after it, it is whole. Sanitizers and valgrind do not
// see into it. A debugger that steps through it restarts it for ever.
extern "C" WriteOutcome leat_rseq_write(const RecordWriter* writer, EventKey event, const uint32_t* word,
                                        const void* payload, uint64_t size, uint32_t expected);

}  // namespace leat::ring
