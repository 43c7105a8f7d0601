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
    kNoRoom = 1,    // the record would cross `limit`: the ring is full, or the consumer wants to be woken
    kNoRing = 2,    // this CPU has no ring, or the thread has no rseq area
    kDisabled = 3,  // the tracepoint was switched off meanwhile
    kNoTime = 4,    // the clock page says kSystem, and no time was given
};

// Where a process has mapped the rings of a set. The sequence knows the places of its members: rseq_writer_offsets.h.
struct RingMap {
    char* base;       // of ring 0's header page
    uint64_t stride;  // from ring to ring: map_stride(size)
    uint64_t mask;    // size - 1
    const ClockPage* clock;
    int64_t rseq_offset;  // from the thread pointer to the kernel's struct rseq
    uint32_t cpu_ring_count;
    uint32_t thread_ring_count;

    [[nodiscard]] RingHeader* ring(uint32_t index) const {
        return reinterpret_cast<RingHeader*>(base + index * stride);  // NOLINT(*-reinterpret-cast)
    }
    [[nodiscard]] uint64_t size() const { return mask + 1; }
};

// Writes one record {event header, `size` bytes at `record`} into the ring of the CPU that we are on.
//
// `record` is readable for kCopySlack bytes beyond its end. `enabled` is read again inside the sequence, so that a
// thread that was stopped for an hour between its test and its record does not write what nobody asked for any more.
// `system_time` (ns) is used when the clock page says kSystem; 0: ask for it by kNoTime. Any thread that has rseq;
// async-signal-safe.
//
// Killed before the last store, the record was never there; after it, it is whole. Sanitizers and valgrind do not
// see into it. A debugger that steps through it restarts it for ever.
extern "C" WriteOutcome leat_rseq_write(const RingMap* map, const EventHeader* header, const uint32_t* enabled,
                                        const void* record, uint64_t size, uint64_t system_time);

// The same, but whatever is not written ends in `not_written`, which gets the arguments and the outcome, and returns to
// the caller. So the caller has nothing to keep for it, and may end here itself.
using NotWritten = void(const RingMap* map, const EventHeader* header, const uint32_t* enabled, const void* record,
                        uint64_t size, WriteOutcome outcome);
extern "C" void leat_rseq_write_or(const RingMap* map, const EventHeader* header, const uint32_t* enabled,
                                   const void* record, uint64_t size, NotWritten* not_written);

}  // namespace leat::ring
