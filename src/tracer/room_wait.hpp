// Waiting for room in a full ring: where the channel blocks, and the program allows that.
//
//     the ring is full    may it wait?   no: the event is discarded
//                         ring the bell, nap, look again ...   room: write
//                         the timeout ran out                  discarded; nobody waits here until the consumer has
//                                                              made room once
//                         the consumer is dead                 discarded; nobody waits until it shows life again
//
// Nobody wakes a writer that naps: it looks by itself, more and more seldom. So a consumer owes nothing to programs.
#pragma once

#include <stdint.h>

#include "ring/ring_format.hpp"
#include "tracer/channel.hpp"

namespace leat::tracer {

// Asks whether the program allows to be blocked (LEAT_ALLOW_BLOCKING). Before its first event.
void prepare_blocking();
bool allows_blocking();

// Whether an event that finds this ring full would wait. Not in a signal handler whose thread waits already; not after
// others have waited in vain; not for a consumer that is dead. Any thread; async-signal-safe.
bool would_wait(const Channel& channel, const ring::RingHeader& ring, uint64_t tail);

// The wait of one event. Any thread, but no guest: its parent cannot go on meanwhile. Async-signal-safe; preserves
// errno; no cancellation point.
class RoomWait {
  public:
    explicit RoomWait(const Channel& channel, bool is_possible = true)
        : channel_(channel), is_possible_(is_possible && channel.blocking_timeout_us != wire::kNoBlocking) {}
    ~RoomWait();
    RoomWait(const RoomWait&) = delete;
    RoomWait& operator=(const RoomWait&) = delete;

    // The ring had no room while its tail was this. Returns when there may be some. False: the event has waited long
    // enough, or must not wait.
    bool nap(ring::RingHeader& ring, uint64_t tail);
    [[nodiscard]] bool is_waiting() const { return has_begun_; }

  private:
    bool begin(const ring::RingHeader& ring, uint64_t tail);

    const Channel& channel_;
    bool is_possible_;
    bool has_begun_ = false;
    uint64_t until_ = 0;   // ns of CLOCK_MONOTONIC
    uint64_t length_ = 0;  // ns, of the next nap
};

}  // namespace leat::tracer
