#include "ring/clock.hpp"

#include <time.h>

#if !defined(__x86_64__) && !defined(__i386__)
#error "clock_now() needs a version for this architecture"
#endif
#include <x86intrin.h>

namespace leat::ring {
namespace {

// F: a page that says kSystem has its system_offset already. Pairs with G in SharedClock::publish().
// The generic form: clang knows the other one for plain integers alone.
ClockSource source_of(const ClockPage& page) {
    ClockSource source{};
    __atomic_load(&page.source, &source, __ATOMIC_ACQUIRE);
    return source;
}

// cycles * multiplier / 2^32, without the 128 bits that 32-bit programs do not have:
//
//     high * 2^32 * multiplier / 2^32 + low * (whole * 2^32 + fraction) / 2^32
uint64_t nanoseconds(uint64_t cycles, uint64_t multiplier) {
    const uint64_t high = cycles >> 32;
    const uint64_t low = cycles & 0xffff'ffff;
    const uint64_t whole = multiplier >> 32;
    const uint64_t fraction = multiplier & 0xffff'ffff;
    return high * multiplier + low * whole + (low * fraction >> 32);
}

}  // namespace

uint64_t system_now() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<uint64_t>(now.tv_nsec);
}

bool uses_tsc(const ClockPage& page) { return source_of(page) == ClockSource::kTsc; }

// The daemon may publish two lines while we read one, and so write over what we are reading:
//
//     reader   generation 4   tsc_base of line 0                         ns_base of line 0   not 4: again
//     daemon                                       line 1: 5   line 0...
//
// So the time counts only if the generation is still the same after the line was read.
uint64_t clock_now(const ClockPage& page) {
    for (;;) {
        const uint32_t generation = __atomic_load_n(&page.generation, __ATOMIC_ACQUIRE);
        if (!uses_tsc(page)) return system_now() + __atomic_load_n(&page.system_offset, __ATOMIC_RELAXED);
        // D: the line is read before the generation is looked at again. Pairs with E in SharedClock::publish().
        const ClockLine& line = page.lines[generation & 1];
        const uint64_t tsc_base = __atomic_load_n(&line.tsc_base, __ATOMIC_ACQUIRE);
        const uint64_t ns_base = __atomic_load_n(&line.ns_base, __ATOMIC_ACQUIRE);
        const uint64_t multiplier = __atomic_load_n(&line.multiplier, __ATOMIC_ACQUIRE);
        const uint64_t tsc = __rdtsc();
        // A CPU whose TSC is a little behind the daemon's has not reached the base yet.
        const uint64_t cycles = tsc > tsc_base ? tsc - tsc_base : 0;
        const uint64_t now = ns_base + nanoseconds(cycles, multiplier);
        if (__atomic_load_n(&page.generation, __ATOMIC_RELAXED) == generation) return now;
    }
}

}  // namespace leat::ring
