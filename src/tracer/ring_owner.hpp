// Which thread owns which ring, where there is no rseq to give rings to CPUs.
#pragma once

#include "tracer/channel.hpp"

namespace leat::tracer {

// A ring for thread `tid` alone: one that nobody owns, or whose owner has died. nullptr: all are taken.
// Async-signal-safe; preserves errno.
ring::RingHeader* claim_ring(const Channel& channel, int32_t tid);

// A ring for one record of a guest: a child that runs on its parent's thread, where it has no place to keep a ring of
// its own. A signal handler in between, another guest, takes another ring. Async-signal-safe; preserves errno.
class GuestRing {
  public:
    GuestRing(const Channel& channel, int32_t tid);
    ~GuestRing();
    GuestRing(const GuestRing&) = delete;
    GuestRing& operator=(const GuestRing&) = delete;

    // nullptr: all are taken.
    [[nodiscard]] ring::RingHeader* get() const { return ring_; }

  private:
    ring::RingHeader* ring_;
};

// The inode of the namespace of our pid; 0: there is no /proc, and never was. Async-signal-safe.
uint32_t own_pid_namespace();

// Notes what cannot be found out later. Before the first claim.
void prepare_claims();

// From now on a thread that ends gives its ring back. (A process that ends or is killed need not: its threads are
// dead, and that is seen.)
void release_rings_of_ending_threads();

}  // namespace leat::tracer
