// Has the pages of a ring mapped many at a time, before a writer comes to them.
#pragma once

#include <stdint.h>

namespace leat::tracer {

struct Channel;

// Where a process stores into a page for the first time, the kernel maps that one page. Where it reads, the kernel also
// maps the pages around it that exist, so that it can store there: 16 at once, from one boundary in the address space
// to the next.
inline constexpr uint64_t kMappedAtOnce = 64U << 10;
inline constexpr uint64_t kTouchedAhead = 512U << 10;

// Which pages of a CPU's ring this process has read ahead of the ring's head: touch_ahead().
struct TouchedAhead {
    uint64_t end;      // the position where it goes on
    uint64_t left;     // bytes that it still reads: so it ends after as many as the ring has
    uint32_t process;  // process_number(): pages that a parent has mapped, its child has not
};

// Lets the kernel map the pages of a CPU's ring that exist, from its head on, as far as kTouchedAhead, unless this
// process has done that. For whoever comes to the ring, and again when it goes on. Any thread; async-signal-safe; calls
// nothing.
void touch_ahead(const Channel& channel, uint32_t cpu);
// Whether this process has done that at all. Any thread; async-signal-safe.
bool has_touched(const Channel& channel, uint32_t cpu);

}  // namespace leat::tracer
