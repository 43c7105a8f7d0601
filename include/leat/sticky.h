/* Sticky events: what a later session must know, such as the name of each queue.
 *
 *     #define QUEUE_NAMED_FIELDS(FIELD)  \
 *         FIELD(integer, uint32_t, id, id) \
 *         FIELD(string, name, name)
 *     LEAT_STICKY_EVENT(queue, named, LEAT_INFO, QUEUE_NAMED_FIELDS, uint32_t id, const char *name);
 *
 *     leat_sticky(queue, named, id, id, name);     the key comes first: here, the number of the queue
 *     leat_forget(queue, named, id);               the queue is gone
 *
 * leat_sticky() is an event as any other, and its value is kept, enabled or not: so its arguments are always evaluated,
 * and a call costs about a system call. The last value for each key is recorded again when a session begins to record
 * the event in this program, and at the start of each chunk that a session daemon rotates to. Such a record has the
 * time of the replay, and the contexts vpid, vtid (that of the process) and procname; all others are not known then.
 *
 * A key is any 64-bit number. A program or shared library keeps 128 values of up to 472 bytes; one that is too large,
 * or finds no room, is counted, and daemons say so in their log. Of two threads that set one key at the same time, one
 * is the last. Any thread. In a signal handler that has interrupted such a call nothing is kept, and that is counted.
 *
 * C11 and C++17; one-line events in C++ have LEAT_STICKY in <leat/event.hpp>. */
#ifndef LEAT_STICKY_H
#define LEAT_STICKY_H

#include <leat/tracepoint.h>

/* As LEAT_TRACEPOINT; it has at least one parameter. */
#define LEAT_STICKY_EVENT(provider, event, level, FIELDS, ...)                                                 \
    LEAT_FIELD_TABLE_(provider##__##event, FIELDS)                                                             \
    LEAT_DEFINE_(static, provider##__##event, #provider ":" #event, level, NULL, LEAT_TRACEPOINT_STICKY,       \
                 provider##__##event)                                                                          \
    static __attribute__((__noinline__, __unused__)) void leat_stick_##provider##__##event(uint64_t leat_key_, \
                                                                                           __VA_ARGS__) {      \
        LEAT_STAGE_(&leat_tracepoint_##provider##__##event, FIELDS, 0,                                         \
                    LEAT_SDT_NAMED_(provider##__##event, #provider, #event, FIELDS(LEAT_SDT_FIELD_)),          \
                    leat_stick(&leat_tracepoint_##provider##__##event, leat_key_, NULL, leat_size_))           \
        leat_stick(&leat_tracepoint_##provider##__##event, leat_key_, leat_payload_, leat_size_);              \
        LEAT_WRITE_(&leat_tracepoint_##provider##__##event)                                                    \
    }                                                                                                          \
    LEAT_REQUIRE_SEMICOLON_

/* The event happened: records it if it is enabled, and keeps it as the last value for `key`. */
#define leat_sticky(provider, name, key, ...) leat_stick_##provider##__##name((uint64_t)(key), __VA_ARGS__)

/* There is no value for `key` any more. */
#define leat_forget(provider, name, key) leat_unstick(&leat_module_, #provider ":" #name, (uint64_t)(key))

#endif
