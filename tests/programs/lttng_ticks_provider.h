/* The event of lttng_ticks.c, in the form that LTTng-UST's headers require. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER test
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "lttng_ticks_provider.h"

#if !defined(TESTS_LTTNG_TICKS_PROVIDER_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define TESTS_LTTNG_TICKS_PROVIDER_H

#include <lttng/tracepoint.h>
#include <stdint.h>

LTTNG_UST_TRACEPOINT_EVENT(test, tick, LTTNG_UST_TP_ARGS(uint64_t, n),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint64_t, n, n)))

#endif

#include <lttng/tracepoint-event.h>
