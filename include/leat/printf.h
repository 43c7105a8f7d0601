/* leat_printf: an event without declaring one, for a quick look.
 *
 *     leat_printf("queue %s is %zu long", name, length);
 *
 * Records "leat:printf" with the text as `msg`, cut at 511 bytes; formats only if the event is enabled. As
 * async-signal-safe as the C library's vsnprintf. */
#ifndef LEAT_PRINTF_H
#define LEAT_PRINTF_H

#include <leat/tracepoint.h>
#include <stdarg.h>
#include <stdio.h>

#define LEAT_PRINTF_FIELDS_(FIELD) FIELD(string, msg, text)
LEAT_TRACEPOINT_AS_(leat__printf, "leat", "printf", LEAT_DEBUG, NULL, LEAT_PRINTF_FIELDS_, const char* text);

static __attribute__((__noinline__, __unused__, __format__(__printf__, 1, 2))) void leat_printf_(const char* format,
                                                                                                 ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    if (vsnprintf(text, sizeof text, format, arguments) >= 0) leat_emit_leat__printf(text);
    va_end(arguments);
}

#define leat_printf(...)                                           \
    do {                                                           \
        if (leat_enabled(leat, printf)) leat_printf_(__VA_ARGS__); \
    } while (0)

#endif
