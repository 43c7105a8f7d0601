/* The events of many_events.h for LTTng-UST, in the form that its headers require. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER many
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "lttng_many_provider.h"

#if !defined(BENCH_LTTNG_MANY_PROVIDER_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define BENCH_LTTNG_MANY_PROVIDER_H

#include <lttng/tracepoint.h>
#include <stdint.h>

#include "hundred.h"

#define DECLARE_EVENT(tens, units)                                       \
    LTTNG_UST_TRACEPOINT_EVENT(                                          \
        many, e##tens##units, LTTNG_UST_TP_ARGS(int32_t, a, int64_t, b), \
        LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int32_t, a, a) lttng_ust_field_integer(int64_t, b, b)))
HUNDRED(DECLARE_EVENT)

#endif

#include <lttng/tracepoint-event.h>
