/* The events of the benchmark, once for each tracer: the same names, fields and values, so that all run the same loops.
 *
 * EMIT_... is one event. It is built with BENCH_LEAT, BENCH_LTTNG, or as one of two floors. BENCH_COPY is `rdtsc` and
 * as many bytes as Leat's record has, written into a buffer of the thread's own, the least that any tracer does.
 * Without any of these it is a bare `rdtsc`. */
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

#elif defined(BENCH_COPY)

#include <string.h>
#include <sys/mman.h>
#include <x86intrin.h>

/* BENCH_COPY is the size of the contexts: 0, or 25 bytes (vpid, vtid, procname).
 *
 * The buffer is as large as a ring of bench/tracer.py and is walked in the same way, so that caches treat both alike.
 * Every record is whole before its end is stored, because a reader in another thread would need that. */
enum { kBufferSize = 32 << 20, kLongestRecord = 128 };

/* It has cache lines of its own: the thread that keeps the second CPU still reads other variables all the time. */
static struct {
    char* memory;
    size_t end;
    char contexts[BENCH_COPY + 1];
    char unused[128];
} buffer __attribute__((aligned(128)));

static __attribute__((constructor)) void make_buffer(void) {
    buffer.memory = mmap(NULL, kBufferSize, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (buffer.memory == MAP_FAILED) __builtin_trap();
}

static inline char* begin_record(void) {
    if (buffer.end > kBufferSize - kLongestRecord) buffer.end = 0;
    char* const at = buffer.memory + buffer.end;
    const uint32_t header = (uint32_t)__rdtsc() << 5 | 1; /* Leat's short header: 5 bits of id, 27 of time */
    memcpy(at, &header, sizeof header);
    memcpy(at + sizeof header, buffer.contexts, BENCH_COPY);
    return at + sizeof header + BENCH_COPY;
}

static inline void end_record(const char* end) {
    __atomic_store_n(&buffer.end, (size_t)(end - buffer.memory), __ATOMIC_RELEASE);
}

static inline char* put(char* at, const void* bytes, size_t size) {
    memcpy(at, bytes, size);
    return at + size;
}

static inline void copy_payload(const void* payload, size_t size) { end_record(put(begin_record(), payload, size)); }

static inline void copy_string(const char* text, uint64_t a) {
    end_record(put(put(begin_record(), text, strlen(text) + 1), &a, sizeof a));
}

struct __attribute__((packed)) two_integers {
    int32_t a;
    int64_t b;
};
struct four_integers {
    uint64_t a, b, c, d;
};
struct io_request {
    uint8_t device, kind;
    uint16_t length;
    uint32_t id;
};

#define COPY_PAYLOAD(type, ...)                    \
    do {                                           \
        const struct type payload = {__VA_ARGS__}; \
        copy_payload(&payload, sizeof payload);    \
    } while (0)

#define EMIT_none() copy_payload(NULL, 0)
#define EMIT_two_integers(a, b) COPY_PAYLOAD(two_integers, a, b)
#define EMIT_four_integers(a, b, c, d) COPY_PAYLOAD(four_integers, a, b, c, d)
#define EMIT_io_request(device, kind, length, id) COPY_PAYLOAD(io_request, device, kind, length, id)
#define EMIT_string(text, a) copy_string(text, a)

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
