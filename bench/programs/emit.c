/* Emits events in a timed loop. Each repetition prints a line: ns of the loop, ns of the same loop without events.
 *
 *     bench-emit-TRACER EVENT EVENTS REPETITIONS THREADS
 *
 * Each thread has a CPU of its own and emits EVENTS events; with two, the time is from the first one's begin to the
 * last one's end. With one, the second CPU is kept still. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "events.h"
#include "monotonic.h"

enum { kMaxThreads = 2, kMaxRepetitions = 1000, kWarmUpEvents = 10000 };

/* Unknown to the loops, as a caller's text would be. */
static const char* volatile text = "thirty-one characters of a name";

/* The barrier keeps the compiler from working anything out ahead of the loop. */
#define LOOP(name, event)                                                             \
    static __attribute__((noinline, aligned(64))) void loop_##name(uint64_t events) { \
        const char* const string = text;                                              \
        for (uint64_t i = 0; i < events; ++i) {                                       \
            __asm__ volatile("" : "+r"(i) : "r"(string) : "memory");                  \
            event;                                                                    \
        }                                                                             \
    }

LOOP(empty, )
LOOP(none, EMIT_none())
LOOP(two_integers, EMIT_two_integers((int32_t)i, (int64_t)i))
LOOP(four_integers, EMIT_four_integers(i, i + 1, i + 2, i + 3))
LOOP(io_request, EMIT_io_request((uint8_t)i, (uint8_t)(i >> 8), (uint16_t)i, (uint32_t)i))
LOOP(string, EMIT_string(string, i))

typedef void loop_function(uint64_t events);

static const struct {
    const char* name;
    loop_function* loop;
} kLoops[] = {
    {"none", loop_none},
    {"two-integers", loop_two_integers},
    {"four-integers", loop_four_integers},
    {"io-request", loop_io_request},
    {"string", loop_string},
};

struct span {
    uint64_t begin;
    uint64_t end;
};

struct worker {
    int cpu;
    unsigned workers;
    loop_function* loop;
    uint64_t events;
    uint64_t repetitions;
    struct span full[kMaxRepetitions];
    struct span empty[kMaxRepetitions];
};

static loop_function* loop_of(const char* name) {
    for (size_t i = 0; i < sizeof kLoops / sizeof kLoops[0]; ++i)
        if (strcmp(kLoops[i].name, name) == 0) return kLoops[i].loop;
    return NULL;
}

static struct span time_of(loop_function* loop, uint64_t events) {
    struct span span;
    span.begin = now_ns();
    loop(events);
    span.end = now_ns();
    return span;
}

static cpu_set_t only(int cpu) {
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(cpu, &cpus);
    return cpus;
}

/* Threads meet by spinning: one that sleeps is late by the time it takes to wake it. */
static void meet(const struct worker* worker, uint64_t meeting) {
    static uint64_t arrived;
    __atomic_add_fetch(&arrived, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(&arrived, __ATOMIC_ACQUIRE) < worker->workers * (meeting + 1)) continue;
}

/* This thread runs there alone, ahead of everybody else's work, where that is allowed: the machine need not be idle. */
static void own_cpu(int cpu) {
    const cpu_set_t cpus = only(cpu);
    if (sched_setaffinity(0, sizeof cpus, &cpus) != 0) perror("bench-emit: sched_setaffinity");
    const struct sched_param priority = {.sched_priority = 1};
    (void)sched_setscheduler(0, SCHED_FIFO, &priority);
}

static int is_done;

/* Keeps a CPU still. Two CPUs may be two threads of one core: then what others do on the second one costs the first one
 * up to half of what it can do at a time. */
static void* keep_still(void* argument) {
    const struct worker* worker = argument;
    own_cpu(worker->cpu);
    while (!__atomic_load_n(&is_done, __ATOMIC_RELAXED)) __builtin_ia32_pause();
    return NULL;
}

static void* work(void* argument) {
    struct worker* worker = argument;
    own_cpu(worker->cpu);

    worker->loop(kWarmUpEvents);
    for (uint64_t i = 0; i < worker->repetitions; ++i) {
        meet(worker, 2 * i);
        worker->full[i] = time_of(worker->loop, worker->events);
        meet(worker, 2 * i + 1);
        worker->empty[i] = time_of(loop_empty, worker->events);
    }
    return NULL;
}

static void start_thread(pthread_t* thread, void* function(void*), struct worker* worker) {
    const cpu_set_t cpus = only(worker->cpu);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setaffinity_np(&attributes, sizeof cpus, &cpus);
    if (pthread_create(thread, &attributes, function, worker) != 0) abort();
    pthread_attr_destroy(&attributes);
}

/* What the tracer shares with its consumer, as a program that has run for a while has touched it: page faults belong to
 * a program's first second, not to its events. */
static void populate_shared_memory(void) {
    FILE* maps = fopen("/proc/self/maps", "r");
    char line[512];
    unsigned long begin = 0;
    unsigned long end = 0;
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL)
        if (strstr(line, " rw-s ") != NULL && sscanf(line, "%lx-%lx", &begin, &end) == 2)
            (void)madvise((void*)begin, end - begin, MADV_POPULATE_WRITE);
    if (maps != NULL) fclose(maps);
}

static uint64_t duration(const struct worker* workers, unsigned count, uint64_t repetition) {
    struct span all = workers[0].full[repetition];
    for (unsigned i = 1; i < count; ++i) {
        const struct span span = workers[i].full[repetition];
        if (span.begin < all.begin) all.begin = span.begin;
        if (span.end > all.end) all.end = span.end;
    }
    return all.end - all.begin;
}

int main(int argc, char** argv) {
    static struct worker workers[kMaxThreads];
    loop_function* loop = argc == 5 ? loop_of(argv[1]) : NULL;
    const uint64_t events = argc == 5 ? strtoull(argv[2], NULL, 10) : 0;
    const uint64_t repetitions = argc == 5 ? strtoull(argv[3], NULL, 10) : 0;
    const unsigned threads = argc == 5 ? (unsigned)strtoul(argv[4], NULL, 10) : 0;
    if (loop == NULL || repetitions > kMaxRepetitions || threads < 1 || threads > kMaxThreads) {
        fprintf(stderr, "usage: %s EVENT EVENTS REPETITIONS THREADS\n", argv[0]);
        return 2;
    }
    populate_shared_memory();

    pthread_t others[kMaxThreads];
    for (unsigned i = kMaxThreads; i-- > 0;) {
        workers[i] = (struct worker){
            .cpu = (int)i, .workers = threads, .loop = loop, .events = events, .repetitions = repetitions};
        if (i > 0) start_thread(&others[i], i < threads ? work : keep_still, &workers[i]);
    }
    work(&workers[0]);
    __atomic_store_n(&is_done, 1, __ATOMIC_RELAXED);
    for (unsigned i = 1; i < kMaxThreads; ++i) pthread_join(others[i], NULL);

    for (uint64_t i = 0; i < repetitions; ++i)
        printf("%llu %llu\n", (unsigned long long)duration(workers, threads, i),
               (unsigned long long)(workers[0].empty[i].end - workers[0].empty[i].begin));
    return 0;
}
