// The clock that all writers share: CLOCK_MONOTONIC in nanoseconds, computed from the TSC.
//
// Freestanding: the tracer library includes this.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace leat::ring {

inline constexpr uint32_t kClockPageMagic = 0x4354'454c;  // "LETC"
inline constexpr uint32_t kClockPageVersion = 2;

enum class ClockSource : uint32_t {
    kTsc,     // ns = ns_base + (tsc - tsc_base) * multiplier / 2^32
    kSystem,  // ns = clock_gettime(CLOCK_MONOTONIC) + system_offset: no invariant TSC, or the kernel left it
};

// One straight line from TSC to nanoseconds.
struct ClockLine {
    uint64_t tsc_base;
    uint64_t ns_base;
    uint64_t multiplier;  // ns per TSC cycle, 32.32 fixed point
    uint64_t unused;
};

//     generation 4:  lines[0] is in force      lines[1] may be rewritten, then generation 5 is published
//     generation 5:  lines[1] is in force      lines[0] may be rewritten, then generation 6 is published
//
// The daemon writes, everybody reads. Two lines take turns: `generation`'s lowest bit names the one in force, the other
// may be rewritten. A reader that sees another generation after its computation computes again.
// A new line starts where the old one ends, and so does the system's time: time changes slope, never value.
struct ClockPage {
    uint32_t magic;
    uint32_t version;
    alignas(64) uint32_t generation;
    ClockSource source;
    uint64_t system_offset;  // ns, modulo 2^64; written before `source` becomes kSystem, and never after
    alignas(64) ClockLine lines[2];
};
static_assert(offsetof(ClockPage, generation) == 64 && offsetof(ClockPage, source) == 68);
static_assert(offsetof(ClockPage, system_offset) == 72);
static_assert(offsetof(ClockPage, lines) == 128 && sizeof(ClockLine) == 32);

}  // namespace leat::ring
