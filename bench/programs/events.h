/* The events of the benchmark, once for each tracer: the same names, fields and values, so that all run the same loops.
 *
 * EMIT_... is one event. Built with BENCH_LEAT, BENCH_LTTNG, or neither: then it is the floor, a bare `rdtsc`. */
#ifndef BENCH_EVENTS_H
#define BENCH_EVENTS_H

#include <stdint.h>

#if defined(BENCH_LEAT)

#include <leat/tracepoint.h>

#define TWO_INTEGERS_FIELDS(FIELD) \
    FIELD(integer, int32_t, a, a)  \
    FIELD(integer, int64_t, b, b)
#define FOUR_INTEGERS_FIELDS(FIELD) \
    FIELD(integer, uint64_t, a, a)  \
    FIELD(integer, uint64_t, b, b)  \
    FIELD(integer, uint64_t, c, c)  \
    FIELD(integer, uint64_t, d, d)
#define IO_REQUEST_FIELDS(FIELD)             \
    FIELD(integer, uint8_t, device, device)  \
    FIELD(integer, uint8_t, kind, kind)      \
    FIELD(integer, uint16_t, length, length) \
    FIELD(integer, uint32_t, id, id)
#define STRING_FIELDS(FIELD)  \
    FIELD(string, text, text) \
    FIELD(integer, uint64_t, a, a)

LEAT_TRACEPOINT(bench, none, LEAT_INFO, LEAT_NO_FIELDS, void);
LEAT_TRACEPOINT(bench, two_integers, LEAT_INFO, TWO_INTEGERS_FIELDS, int32_t a, int64_t b);
LEAT_TRACEPOINT(bench, four_integers, LEAT_INFO, FOUR_INTEGERS_FIELDS, uint64_t a, uint64_t b, uint64_t c, uint64_t d);
LEAT_TRACEPOINT(bench, io_request, LEAT_INFO, IO_REQUEST_FIELDS, uint8_t device, uint8_t kind, uint16_t length,
                uint32_t id);
LEAT_TRACEPOINT(bench, string, LEAT_INFO, STRING_FIELDS, const char* text, uint64_t a);

#define EMIT_none() leat_tracepoint(bench, none)
#define EMIT_two_integers(a, b) leat_tracepoint(bench, two_integers, a, b)
#define EMIT_four_integers(a, b, c, d) leat_tracepoint(bench, four_integers, a, b, c, d)
#define EMIT_io_request(device, kind, length, id) leat_tracepoint(bench, io_request, device, kind, length, id)
#define EMIT_string(text, a) leat_tracepoint(bench, string, text, a)

#elif defined(BENCH_LTTNG)

#include "lttng_provider.h"

#define EMIT_none() lttng_ust_tracepoint(bench, none)
#define EMIT_two_integers(a, b) lttng_ust_tracepoint(bench, two_integers, a, b)
#define EMIT_four_integers(a, b, c, d) lttng_ust_tracepoint(bench, four_integers, a, b, c, d)
#define EMIT_io_request(device, kind, length, id) lttng_ust_tracepoint(bench, io_request, device, kind, length, id)
#define EMIT_string(text, a) lttng_ust_tracepoint(bench, string, text, a)

#else

#include <x86intrin.h>

static inline void read_clock(void) {
    uint64_t now = __rdtsc();
    __asm__ volatile("" ::"r"(now));
}

#define EMIT_none() read_clock()
#define EMIT_two_integers(a, b) read_clock()
#define EMIT_four_integers(a, b, c, d) read_clock()
#define EMIT_io_request(device, kind, length, id) read_clock()
#define EMIT_string(text, a) read_clock()

#endif

#endif
