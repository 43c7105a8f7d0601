/* The three events of an IO request and the two of a task, once for each contender: Leat, LTTng-UST, a floor (`rdtsc`
 * and as many bytes as Leat's tiny record has, into a buffer of the thread's own), lines of text for a system log, and
 * nothing. */
#ifndef BENCH_REQUEST_EVENTS_H
#define BENCH_REQUEST_EVENTS_H

#include <stdint.h>

#if defined(BENCH_LEAT)

#include <leat/tracepoint.h>

#define QUEUED_FIELDS(FIELD)                            \
    FIELD(integer, uint8_t, direction, direction)       \
    FIELD(integer, uint8_t, class_number, class_number) \
    FIELD(integer, uint16_t, blocks, blocks)            \
    FIELD(integer, uint32_t, request, request)
#define REQUEST_FIELDS(FIELD) FIELD(integer, uint32_t, request, request)
LEAT_TRACEPOINT(io, queued, LEAT_INFO, QUEUED_FIELDS, uint8_t direction, uint8_t class_number, uint16_t blocks,
                uint32_t request);
LEAT_TRACEPOINT(io, dispatched, LEAT_INFO, REQUEST_FIELDS, uint32_t request);
LEAT_TRACEPOINT(io, completed, LEAT_INFO, REQUEST_FIELDS, uint32_t request);
LEAT_TRACEPOINT(task, begin, LEAT_INFO, REQUEST_FIELDS, uint32_t request);
LEAT_TRACEPOINT(task, end, LEAT_INFO, REQUEST_FIELDS, uint32_t request);

#define EMIT_queued(direction, class_number, blocks, request) \
    leat_tracepoint(io, queued, direction, class_number, blocks, request)
#define EMIT_dispatched(request) leat_tracepoint(io, dispatched, request)
#define EMIT_completed(request) leat_tracepoint(io, completed, request)
#define EMIT_task_begin(task_number) leat_tracepoint(task, begin, task_number)
#define EMIT_task_end(task_number) leat_tracepoint(task, end, task_number)

#elif defined(BENCH_LTTNG)

#include "lttng_provider.h"

#define EMIT_queued(direction, class_number, blocks, request) \
    lttng_ust_tracepoint(bench, queued, direction, class_number, blocks, request)
#define EMIT_dispatched(request) lttng_ust_tracepoint(bench, dispatched, request)
#define EMIT_completed(request) lttng_ust_tracepoint(bench, completed, request)
#define EMIT_task_begin(task_number) lttng_ust_tracepoint(bench, task_begin, task_number)
#define EMIT_task_end(task_number) lttng_ust_tracepoint(bench, task_end, task_number)

#elif defined(BENCH_FLOOR)

#include <string.h>
#include <sys/mman.h>
#include <x86intrin.h>

/* As large as the rings of a capture, and walked in the same way. A record is whole before its end is stored. */
enum { kBufferSize = 1 << 20 };
static struct {
    char* memory;
    size_t end;
} buffer __attribute__((aligned(128)));

static __attribute__((constructor)) void make_buffer(void) {
    buffer.memory = mmap(NULL, kBufferSize + 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (buffer.memory == MAP_FAILED) __builtin_trap();
}

static inline __attribute__((always_inline)) void put_record(uint8_t id, uint64_t payload, size_t size) {
    const uint64_t header = (__rdtsc() & ~(uint64_t)0xff) | id;
    char* const at = buffer.memory + (buffer.end & (kBufferSize - 1));
    memcpy(at, &header, 4);
    memcpy(at + 3, &payload, sizeof payload);
    __atomic_store_n(&buffer.end, buffer.end + 3 + size, __ATOMIC_RELEASE);
}

#define EMIT_queued(direction, class_number, blocks, request)                                                         \
    put_record(                                                                                                       \
        0,                                                                                                            \
        (uint64_t)(direction) | (uint64_t)(class_number) << 8 | (uint64_t)(blocks) << 16 | (uint64_t)(request) << 32, \
        8)
#define EMIT_dispatched(request) put_record(1, request, 4)
#define EMIT_completed(request) put_record(2, request, 4)
#define EMIT_task_begin(task_number) put_record(3, task_number, 4)
#define EMIT_task_end(task_number) put_record(4, task_number, 4)

#elif defined(BENCH_TEXT)

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

/* A logger formats each line and sends it as a datagram; whoever is at the other end reads it, as a log daemon does,
 * and keeps nothing. */
static int log_socket;
static uint64_t log_bytes;

static __attribute__((constructor)) void begin_log(void) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) != 0) __builtin_trap();
    const pid_t daemon = fork();
    if (daemon == 0) {
        char line[512];
        /* A pair of datagram sockets does not tell that the other end is closed. */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ends[1]);
        while (recv(ends[0], line, sizeof line, 0) > 0) continue;
        _exit(0);
    }
    close(ends[0]);
    log_socket = ends[1];
}

static void log_line(uint32_t request, const char* what) {
    char line[256];
    struct timespec now;
    struct tm local;
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &local);
    size_t size = strftime(line, sizeof line, "TRACE %Y-%m-%d %H:%M:%S", &local);
    size +=
        (size_t)snprintf(line + size, sizeof line - size, ",%03ld [shard 0:main] io - dev 64771 : req 0x6020%08x %s",
                         now.tv_nsec / 1000000, request, what);
    log_bytes += size;
    if (send(log_socket, line, size, 0) < 0) __builtin_trap();
}

static void log_queued(uint8_t class_number, uint16_t blocks, uint32_t request) {
    char what[64];
    snprintf(what, sizeof what, "queue class %u len %u capacity %u", class_number, blocks * 512U, 80612U);
    log_line(request, what);
}

#define EMIT_queued(direction, class_number, blocks, request) log_queued(class_number, blocks, request)
#define EMIT_dispatched(request) log_line(request, "submit")
#define EMIT_completed(request) log_line(request, "complete")
#define EMIT_task_begin(task_number) log_line(task_number, "begin")
#define EMIT_task_end(task_number) log_line(task_number, "end")

#else
#error "which contender?"
#endif

#endif
