// An event goes to a channel that this process has not got: its daemon is asked for it.
#pragma once

#include <stdint.h>

#include "tracer/channel.hpp"
#include "wire/app/control_format.hpp"

namespace leat::tracer {

// How daemons are asked. Tests set it, so that they depend on no moment; nobody else does.
struct Fetching {
    // ns; the daemon has so long to answer, and others wait so long for the thread that asks
    uint64_t patience = 10'000'000;
    static constexpr uint32_t kAnyChannel = UINT32_MAX;

    // ns; after a failure, nobody asks for that channel for so long; after silence or a second failure, nobody asks
    // that lane's daemon for any
    uint64_t pause = 100'000'000;
    // The time of each lane's last failure; 0: none.
    uint64_t failed_at[wire::kLanes] = {};
    // The channel that could not be had then; kAnyChannel: none of the lane.
    uint32_t failed_number[wire::kLanes] = {};
};
extern Fetching fetching;

// Attaches the channel, unless another thread has done so by now. nullptr: there is none to be had at the moment. That
// is so for guests (children that run on their parent's thread), which might end in the middle and leave the lock; for
// signal handlers of the thread that asks; and for processes with LEAT_REGISTER_TIMEOUT=0, which wait for nobody. Any
// thread; async-signal-safe; preserves errno; no cancellation point; takes at most Fetching::patience twice.
const Channel* fetch_channel(wire::Lane lane, uint32_t number);

}  // namespace leat::tracer
