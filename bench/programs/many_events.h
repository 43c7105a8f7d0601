/* A hundred events, many:e00 to many:e99, once for each tracer. */
#ifndef BENCH_MANY_EVENTS_H
#define BENCH_MANY_EVENTS_H

#include "hundred.h"

#if defined(BENCH_LEAT)

#include <leat/tracepoint.h>
#include <stdint.h>

#define MANY_FIELDS(FIELD)        \
    FIELD(integer, int32_t, a, a) \
    FIELD(integer, int64_t, b, b)
#define DECLARE_EVENT(tens, units) LEAT_TRACEPOINT(many, e##tens##units, LEAT_INFO, MANY_FIELDS, int32_t a, int64_t b);
HUNDRED(DECLARE_EVENT)

#define IS_ON(tens, units) leat_enabled(many, e##tens##units)

#else

#include "lttng_many_provider.h"

#define IS_ON(tens, units) lttng_ust_tracepoint_enabled(many, e##tens##units)

#endif

#endif
