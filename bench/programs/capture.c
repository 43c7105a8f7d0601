/* What the three events of an IO request cost, and what two events cost a loop of short tasks. Each repetition prints a
 * line of two figures: ns of the loop, ns of the same loop without events. Then comes a line with the number of loops
 * that were run in all, and the bytes that they took, where the program knows.
 *
 *     bench-capture-CONTENDER request|task LOOPS REPETITIONS [off | HEADER DIRECTORY]
 *
 * With Leat, the program captures itself with those headers, into that directory, unless it is "off". Its blocks hold
 * all of a repetition; they are written between two. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "monotonic.h"
#include "request_events.h"
#if defined(BENCH_LEAT)
#include <leat/capture.h>
#endif

enum { kWarmUps = 8 };

/* About 100 ns, which nothing can be left out of. */
static inline __attribute__((always_inline)) void do_task(void) {
    uint64_t value = 1;
    for (int i = 0; i < 200; ++i) __asm__ volatile("imul $3, %0, %0" : "+r"(value));
}

#define LOOP(name, before, task, after)                                              \
    static __attribute__((noinline, aligned(64))) void loop_##name(uint32_t loops) { \
        for (uint32_t i = 0; i < loops; ++i) {                                       \
            __asm__ volatile("" : "+r"(i)::"memory");                                \
            before;                                                                  \
            task;                                                                    \
            after;                                                                   \
        }                                                                            \
    }

LOOP(request, EMIT_queued((uint8_t)(i & 1), (uint8_t)(i % 3), 8, i), EMIT_dispatched(i), EMIT_completed(i))
LOOP(no_request, , , )
LOOP(task, EMIT_task_begin(i), do_task(), EMIT_task_end(i))
LOOP(bare_task, , do_task(), )

typedef void loop_function(uint32_t loops);

static int64_t time_of(loop_function* loop, uint32_t loops) {
    const int64_t begin = now_ns();
    loop(loops);
    return now_ns() - begin;
}

static void own_cpu(void) {
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(0, &cpus);
    if (sched_setaffinity(0, sizeof cpus, &cpus) != 0) perror("bench-capture: sched_setaffinity");
    const struct sched_param priority = {.sched_priority = 1};
    (void)sched_setscheduler(0, SCHED_FIFO, &priority);
}

#if defined(BENCH_LEAT)
static struct leat_capture* start(const char* header, const char* directory) {
    struct leat_capture_options options = LEAT_CAPTURE_OPTIONS;
    options.directory = directory;
    options.duration_ns = 3600000000000;
    options.max_size = (uint64_t)1 << 40;
    options.header = header;
    char error[LEAT_CAPTURE_ERROR_SIZE];
    struct leat_capture* const capture = leat_capture_start(&options, error);
    if (capture == NULL) fprintf(stderr, "bench-capture: %s\n", error);
    return capture;
}
#endif

int main(int argc, char** argv) {
    if (argc < 4) return 2;
    const int is_task = strcmp(argv[1], "task") == 0;
    const uint32_t loops = (uint32_t)strtoul(argv[2], NULL, 10);
    const unsigned repetitions = (unsigned)strtoul(argv[3], NULL, 10);
    loop_function* const full = is_task ? loop_task : loop_request;
    loop_function* const empty = is_task ? loop_bare_task : loop_no_request;
    own_cpu();
#if defined(BENCH_LEAT)
    struct leat_capture* capture = NULL;
    if (argc == 6 && (capture = start(argv[4], argv[5])) == NULL) return 1;
#endif
    uint64_t bytes = 0;
    for (unsigned i = 0; i < kWarmUps + repetitions; ++i) {
        const int64_t with_events = time_of(full, loops);
        const int64_t without = time_of(empty, loops);
        if (i >= kWarmUps) printf("%lld %lld\n", (long long)with_events, (long long)without);
#if defined(BENCH_LEAT)
        if (capture == NULL) continue;
        /* Once per period that a capture looks in. */
        sleep_until(now_ns() + 200000);
        (void)leat_capture_write(capture);
#endif
    }
#if defined(BENCH_LEAT)
    if (capture != NULL) {
        leat_capture_stop(capture);
        while (leat_capture_write(capture) != 0) continue;
        struct leat_capture_result result;
        leat_capture_get_result(capture, &result);
        leat_capture_free(capture);
        if (result.skipped != 0 || result.lost != 0) {
            fprintf(stderr, "bench-capture: %llu events skipped, %llu lost\n", (unsigned long long)result.skipped,
                    (unsigned long long)result.lost);
            return 1;
        }
        bytes = result.bytes;
    }
#elif defined(BENCH_TEXT)
    bytes = log_bytes;
#endif
    printf("%llu %llu\n", (unsigned long long)(kWarmUps + repetitions) * loops, (unsigned long long)bytes);
    return 0;
}
