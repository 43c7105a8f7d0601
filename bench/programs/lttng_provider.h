/* The events of events.h for LTTng-UST, in the form that its headers require. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER bench
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "lttng_provider.h"

#if !defined(BENCH_LTTNG_PROVIDER_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define BENCH_LTTNG_PROVIDER_H

#include <lttng/tracepoint.h>
#include <stdint.h>

LTTNG_UST_TRACEPOINT_EVENT(bench, none, LTTNG_UST_TP_ARGS(), LTTNG_UST_TP_FIELDS())

LTTNG_UST_TRACEPOINT_EVENT(bench, two_integers, LTTNG_UST_TP_ARGS(int32_t, a, int64_t, b),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int32_t, a, a)
                                                   lttng_ust_field_integer(int64_t, b, b)))

LTTNG_UST_TRACEPOINT_EVENT(bench, four_integers, LTTNG_UST_TP_ARGS(uint64_t, a, uint64_t, b, uint64_t, c, uint64_t, d),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint64_t, a, a)
                                                   lttng_ust_field_integer(uint64_t, b, b)
                                                       lttng_ust_field_integer(uint64_t, c, c)
                                                           lttng_ust_field_integer(uint64_t, d, d)))

LTTNG_UST_TRACEPOINT_EVENT(bench, io_request,
                           LTTNG_UST_TP_ARGS(uint8_t, device, uint8_t, kind, uint16_t, length, uint32_t, id),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint8_t, device, device)
                                                   lttng_ust_field_integer(uint8_t, kind, kind)
                                                       lttng_ust_field_integer(uint16_t, length, length)
                                                           lttng_ust_field_integer(uint32_t, id, id)))

LTTNG_UST_TRACEPOINT_EVENT(bench, string, LTTNG_UST_TP_ARGS(const char*, text, uint64_t, a),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_string(text, text)
                                                   lttng_ust_field_integer(uint64_t, a, a)))

/* The events of request_events.h */
LTTNG_UST_TRACEPOINT_EVENT(bench, queued,
                           LTTNG_UST_TP_ARGS(uint8_t, direction, uint8_t, class_number, uint16_t, blocks, uint32_t,
                                             request),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint8_t, direction, direction)
                                                   lttng_ust_field_integer(uint8_t, class_number, class_number)
                                                       lttng_ust_field_integer(uint16_t, blocks, blocks)
                                                           lttng_ust_field_integer(uint32_t, request, request)))
LTTNG_UST_TRACEPOINT_EVENT(bench, dispatched, LTTNG_UST_TP_ARGS(uint32_t, request),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint32_t, request, request)))
LTTNG_UST_TRACEPOINT_EVENT(bench, completed, LTTNG_UST_TP_ARGS(uint32_t, request),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint32_t, request, request)))
LTTNG_UST_TRACEPOINT_EVENT(bench, task_begin, LTTNG_UST_TP_ARGS(uint32_t, task_number),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint32_t, task_number, task_number)))
LTTNG_UST_TRACEPOINT_EVENT(bench, task_end, LTTNG_UST_TP_ARGS(uint32_t, task_number),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint32_t, task_number, task_number)))

#endif

#include <lttng/tracepoint-event.h>
