// Which thread owns which ring, where there is no rseq to give rings to CPUs.
#pragma once

#include "tracer/channel.hpp"

namespace leat::tracer {

// A ring for this thread alone: one that nobody owns, or whose owner has died. nullptr: all are taken.
// Async-signal-safe; preserves errno.
ring::RingHeader* claim_ring(const Channel& channel);

// From now on a thread that ends gives its ring back. (A process that ends or is killed need not: its threads are
// dead, and that is seen.)
void release_rings_of_ending_threads();

}  // namespace leat::tracer
