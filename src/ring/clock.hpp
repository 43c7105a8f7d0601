// The shared clock as writers and readers of rings ask for the time: see clock_page.hpp.
//
// Freestanding: the tracer library includes this.
#pragma once

#include <stdint.h>

#include "ring/clock_page.hpp"

namespace leat::ring {

// Nanoseconds of CLOCK_MONOTONIC, by the shared clock page. Any thread; async-signal-safe.
uint64_t clock_now(const ClockPage& page);

// Whether the shared clock is read from the TSC; else from the system, which restartable sequences cannot do.
bool uses_tsc(const ClockPage& page);

// CLOCK_MONOTONIC from the system. Any thread; async-signal-safe.
uint64_t system_now();

}  // namespace leat::ring
