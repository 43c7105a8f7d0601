// An event goes to a channel that this process has not got: its daemon is asked for it.
#pragma once

#include <stdint.h>

#include "tracer/channel.hpp"
#include "wire/app/control_format.hpp"

namespace leat::tracer {

// The daemon has so long to answer, and others wait so long for the thread that asks.
inline constexpr uint64_t kFetchPatience = 10'000'000;  // ns
// After a failure, nobody asks that lane's daemon for so long.
inline constexpr uint64_t kFetchPause = 100'000'000;  // ns

// Attaches the channel, unless another thread has done so by now. nullptr: there is none to be had at the moment. That
// is so for guests (children that run on their parent's thread), which might end in the middle and leave the lock; for
// signal handlers of the thread that asks; and for processes with LEAT_REGISTER_TIMEOUT=0, which wait for nobody. Any
// thread; async-signal-safe; preserves errno; no cancellation point; takes at most kFetchPatience twice.
const Channel* fetch_channel(wire::Lane lane, uint32_t number);

}  // namespace leat::tracer
