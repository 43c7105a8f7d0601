/* leat_log: a line of text with a log level, and where it was written.
 *
 *     leat_log(LEAT_WARNING, "queue %s is %zu long", name, length);
 *
 * Records "leat_log:warning" (one event for each level) with the source line, file, function, and the text as `msg`,
 * cut at 511 bytes; formats only if the event is enabled. `leat record --loglevel` chooses by level. The level is one
 * of the names in <leat/tracepoint.h>, not an expression. As async-signal-safe as the C library's vsnprintf. */
#ifndef LEAT_LOG_H
#define LEAT_LOG_H

#include <leat/tracepoint.h>
#include <stdarg.h>
#include <stdio.h>

#define LEAT_LOG_FIELDS_(FIELD)         \
    FIELD(integer, int32_t, line, line) \
    FIELD(string, file, file)           \
    FIELD(string, func, function)       \
    FIELD(string, msg, text)
LEAT_EVENT_CLASS(leat_log, line, LEAT_LOG_FIELDS_, int line, const char* file, const char* function, const char* text);

/* Weak: these are the same in all files, so a module has one of each. */
#define LEAT_LOG_EVENT_(name, level)                                                                                  \
    LEAT_EVENT_INSTANCE_AS_(__attribute__((__weak__, __visibility__("hidden"))), leat_log__##name, "leat_log", #name, \
                            leat_log__line, level, NULL,                                                              \
                            (int line, const char* file, const char* function, const char* text),                     \
                            (line, file, function, text))
LEAT_LOG_EVENT_(emerg, LEAT_EMERG);
LEAT_LOG_EVENT_(alert, LEAT_ALERT);
LEAT_LOG_EVENT_(crit, LEAT_CRIT);
LEAT_LOG_EVENT_(err, LEAT_ERR);
LEAT_LOG_EVENT_(warning, LEAT_WARNING);
LEAT_LOG_EVENT_(notice, LEAT_NOTICE);
LEAT_LOG_EVENT_(info, LEAT_INFO);
LEAT_LOG_EVENT_(debug_system, LEAT_DEBUG_SYSTEM);
LEAT_LOG_EVENT_(debug_program, LEAT_DEBUG_PROGRAM);
LEAT_LOG_EVENT_(debug_process, LEAT_DEBUG_PROCESS);
LEAT_LOG_EVENT_(debug_module, LEAT_DEBUG_MODULE);
LEAT_LOG_EVENT_(debug_unit, LEAT_DEBUG_UNIT);
LEAT_LOG_EVENT_(debug_function, LEAT_DEBUG_FUNCTION);
LEAT_LOG_EVENT_(debug_line, LEAT_DEBUG_LINE);
LEAT_LOG_EVENT_(debug, LEAT_DEBUG);

#define LEAT_LOG_ID_LEAT_EMERG leat_log__emerg
#define LEAT_LOG_ID_LEAT_ALERT leat_log__alert
#define LEAT_LOG_ID_LEAT_CRIT leat_log__crit
#define LEAT_LOG_ID_LEAT_ERR leat_log__err
#define LEAT_LOG_ID_LEAT_WARNING leat_log__warning
#define LEAT_LOG_ID_LEAT_NOTICE leat_log__notice
#define LEAT_LOG_ID_LEAT_INFO leat_log__info
#define LEAT_LOG_ID_LEAT_DEBUG_SYSTEM leat_log__debug_system
#define LEAT_LOG_ID_LEAT_DEBUG_PROGRAM leat_log__debug_program
#define LEAT_LOG_ID_LEAT_DEBUG_PROCESS leat_log__debug_process
#define LEAT_LOG_ID_LEAT_DEBUG_MODULE leat_log__debug_module
#define LEAT_LOG_ID_LEAT_DEBUG_UNIT leat_log__debug_unit
#define LEAT_LOG_ID_LEAT_DEBUG_FUNCTION leat_log__debug_function
#define LEAT_LOG_ID_LEAT_DEBUG_LINE leat_log__debug_line
#define LEAT_LOG_ID_LEAT_DEBUG leat_log__debug

/* Cut at 511 bytes; empty if it cannot be formatted. */
static __attribute__((__noinline__, __unused__, __format__(__printf__, 2, 3))) const char* leat_log_text_(
    char* text, const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (vsnprintf(text, 512, format, arguments) < 0) text[0] = '\0';
    va_end(arguments);
    return text;
}

#define leat_log(level, ...) LEAT_LOG_BY_ID_(LEAT_LOG_ID_##level, __VA_ARGS__)
#define LEAT_LOG_BY_ID_(id, ...) LEAT_LOG_TO_(id, __VA_ARGS__)
#define LEAT_LOG_TO_(id, ...)                                                                      \
    do {                                                                                           \
        if (LEAT_IS_ENABLED_(leat_tracepoint_##id)) {                                              \
            char leat_text_[512];                                                                  \
            leat_emit_##id(__LINE__, __FILE__, __func__, leat_log_text_(leat_text_, __VA_ARGS__)); \
        }                                                                                          \
    } while (0)

#endif
