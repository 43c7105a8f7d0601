// The writer of thread-owned rings, for threads without rseq: plain stores, and the same commit.
//
// Freestanding: the tracer library includes this.
#pragma once

#include <stdint.h>

#include "ring/rseq_writer.hpp"

namespace leat::ring {

// Writes one record of the time `now` (ns) into `ring`, which the calling thread owns; nobody else writes there, and
// the caller keeps its own signal handlers out. The other arguments are leat_rseq_write's.
WriteOutcome thread_write(const RecordWriter& writer, RingHeader& ring, uint32_t id, const void* payload, uint64_t size,
                          uint64_t now);

}  // namespace leat::ring
