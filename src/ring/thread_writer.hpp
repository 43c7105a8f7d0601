// The writer of thread-owned rings, for threads without rseq: plain stores, and the same commit.
//
// Freestanding: the tracer library includes this.
#pragma once

#include <stdint.h>

#include "ring/rseq_writer.hpp"

namespace leat::ring {

// Writes one record of the time `now` (ns) into `ring`, which the calling thread owns; nobody else writes there, and
// the caller keeps its own signal handlers out. Arguments as leat_rseq_write's.
WriteOutcome thread_write(const RingMap& map, RingHeader& ring, const EventHeader& header, const void* record,
                          uint64_t size, uint64_t now);

// Nanoseconds of CLOCK_MONOTONIC, by the shared clock page. Any thread; async-signal-safe.
uint64_t clock_now(const ClockPage& page);

// Whether the shared clock is read from the TSC; else from the system, which restartable sequences cannot do.
bool uses_tsc(const ClockPage& page);

// CLOCK_MONOTONIC from the system.
uint64_t system_now();

}  // namespace leat::ring
