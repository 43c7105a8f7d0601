/* Emits events and prints what they took. Each repetition prints a line that begins with two figures: ns of the loop,
 * ns of the same loop without events.
 *
 *     bench-emit-TRACER EVENT EVENTS REPETITIONS THREADS [paused|cold|warm|touch|stopped]
 *
 * Each thread has a CPU of its own and emits EVENTS events. With two threads, the time is from the begin of the first
 * to the end of the last. With one, the second CPU is kept still.
 *
 * paused: one thread waits 10 us before each event, and only the events are timed. This is the cost for a program that
 * emits now and then.
 * cold: one thread emits EVENTS events once, into memory that this process has not touched, like a process's first
 * events. The line continues with the 99.9th percentile and the longest of the gaps between events, in ns.
 * warm: timed in the same way, but into memory that this process has touched, and after as many events as the loops
 * emit before they are timed.
 * stopped: emits as many events as the loops emit before they are timed, prints a line, and waits for one. Meanwhile
 * the session is stopped. Then come the loops. touch: emits nothing and prints nothing, but touches the memory, for a
 * process that comes later. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <x86intrin.h>

#include "events.h"
#include "monotonic.h"

enum { kMaxThreads = 2, kMaxRepetitions = 1000, kWarmUpEvents = 10000, kMaxTimed = 100000, kPauseNs = 10000 };
/* Enough to have run the code, and few enough to stay on the ring's first page. */
enum { kColdWarmUpEvents = 16 };

/* The loops do not know this text, like a text that a caller passes. */
static const char* volatile text = "thirty-one characters of a name";

/* The barrier keeps the compiler from computing anything before the loop. */
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
    uint64_t events_before; /* of the warm-up: emitted already */
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

/* Threads meet by spinning, because waking a thread that sleeps takes time. */
static void meet(const struct worker* worker, uint64_t meeting) {
    static uint64_t arrived;
    __atomic_add_fetch(&arrived, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(&arrived, __ATOMIC_ACQUIRE) < worker->workers * (meeting + 1)) continue;
}

/* Makes this thread run alone on the CPU, before all other work, where that is allowed. So the machine need not be
 * idle. */
static void own_cpu(int cpu) {
    const cpu_set_t cpus = only(cpu);
    if (sched_setaffinity(0, sizeof cpus, &cpus) != 0) perror("bench-emit: sched_setaffinity");
    const struct sched_param priority = {.sched_priority = 1};
    (void)sched_setscheduler(0, SCHED_FIFO, &priority);
}

static int is_done;

/* Keeps a CPU still. Two CPUs may be two threads of one core; then the work of others on the second costs the first up
 * to half of its speed. */
static void* keep_still(void* argument) {
    const struct worker* worker = argument;
    own_cpu(worker->cpu);
    while (!__atomic_load_n(&is_done, __ATOMIC_RELAXED)) __builtin_ia32_pause();
    return NULL;
}

static void* work(void* argument) {
    struct worker* worker = argument;
    own_cpu(worker->cpu);

    worker->loop(kWarmUpEvents - worker->events_before);
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

/* Touches what the tracer shares with its consumer, as a program that has run for a while has done. Page faults belong
 * to a program's first second, not to its events. */
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

static double ns_per_cycle(void) {
    const int64_t begin_ns = now_ns();
    const uint64_t begin = __rdtsc();
    while (now_ns() - begin_ns < 10000000) continue;
    return (double)(now_ns() - begin_ns) / (double)(__rdtsc() - begin);
}

static uint64_t times[kMaxTimed + 1];

/* Returns cycles. The fences keep the event between the two readings of the clock. */
static uint64_t paused_events(loop_function* loop, uint64_t events, uint64_t pause) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < events; ++i) {
        const uint64_t until = __rdtsc() + pause;
        while (__rdtsc() < until) __builtin_ia32_pause();
        _mm_lfence();
        const uint64_t begin = __rdtsc();
        loop(1);
        _mm_lfence();
        sum += __rdtsc() - begin;
    }
    return sum;
}

static void run_paused(const struct worker* worker) {
    const double ns = ns_per_cycle();
    const uint64_t pause = (uint64_t)(kPauseNs / ns);
    worker->loop(kWarmUpEvents - worker->events_before);
    for (uint64_t i = 0; i < worker->repetitions; ++i) {
        const uint64_t full = paused_events(worker->loop, worker->events, pause);
        const uint64_t empty = paused_events(loop_empty, worker->events, pause);
        printf("%.0f %.0f\n", (double)full * ns, (double)empty * ns);
    }
}

/* Returns cycles; `times` then holds the end of each event. */
static uint64_t timed_events(loop_function* loop, uint64_t events) {
    times[0] = __rdtsc();
    for (uint64_t i = 1; i <= events; ++i) {
        loop(1);
        times[i] = __rdtsc();
    }
    return times[events] - times[0];
}

static int compare_gaps(const void* left, const void* right) {
    const uint64_t a = *(const uint64_t*)left;
    const uint64_t b = *(const uint64_t*)right;
    return (a > b) - (a < b);
}

/* Memory is cold only once, so there is one repetition. */
static void run_single(const struct worker* worker, uint64_t warm_up_events) {
    const double ns = ns_per_cycle();
    const uint64_t events = worker->events;
    worker->loop(warm_up_events);
    (void)timed_events(loop_empty, events); /* touches `times` */
    const uint64_t empty = timed_events(loop_empty, events);
    const uint64_t full = timed_events(worker->loop, events);
    for (uint64_t i = 0; i < events; ++i) times[i] = times[i + 1] - times[i];
    qsort(times, events, sizeof times[0], compare_gaps);
    printf("%.0f %.0f %.0f %.0f\n", (double)full * ns, (double)empty * ns,
           (double)times[events - 1 - events / 1000] * ns, (double)times[events - 1] * ns);
}

static struct worker workers[kMaxThreads];

/* A program gets its rings with its first event, and maps that of a CPU with the first one there. */
static void touch_rings(unsigned threads) {
    for (unsigned i = threads; i-- > 0;) {
        const cpu_set_t cpus = only((int)i);
        if (sched_setaffinity(0, sizeof cpus, &cpus) != 0) perror("bench-emit: sched_setaffinity");
        workers[i].loop(1);
        workers[i].events_before = 1;
    }
    populate_shared_memory();
}

/* The second CPU stays free, because the consumer may have to work for us there. */
static int run_cold(void) {
    own_cpu(0);
    run_single(&workers[0], kColdWarmUpEvents);
    return 0;
}

static int run_warm(void) {
    touch_rings(1);
    own_cpu(0);
    run_single(&workers[0], kWarmUpEvents - workers[0].events_before);
    return 0;
}

static int run_touch(void) {
    populate_shared_memory();
    return 0;
}

/* Emits while the session is active, and lets the caller stop it. */
static void emit_and_wait(loop_function* loop) {
    loop(kWarmUpEvents);
    puts("emitted");
    fflush(stdout);
    for (int c = 0; c != '\n' && c != EOF;) c = getchar();
}

static int run_steady(unsigned threads, int is_paused) {
    touch_rings(threads);
    pthread_t others[kMaxThreads];
    for (unsigned i = kMaxThreads; i-- > 1;) start_thread(&others[i], i < threads ? work : keep_still, &workers[i]);
    if (is_paused) {
        own_cpu(0);
        run_paused(&workers[0]);
    } else {
        work(&workers[0]);
    }
    __atomic_store_n(&is_done, 1, __ATOMIC_RELAXED);
    for (unsigned i = 1; i < kMaxThreads; ++i) pthread_join(others[i], NULL);
    for (uint64_t i = 0; !is_paused && i < workers[0].repetitions; ++i)
        printf("%llu %llu\n", (unsigned long long)duration(workers, threads, i),
               (unsigned long long)(workers[0].empty[i].end - workers[0].empty[i].begin));
    return 0;
}

enum mode { kSteady, kPaused, kCold, kWarm, kTouch, kStopped, kUnknown };

static enum mode mode_of(const char* name) {
    static const char* const kNames[] = {"steady", "paused", "cold", "warm", "touch", "stopped"};
    enum mode mode = kSteady;
    while (mode < kUnknown && strcmp(kNames[mode], name) != 0) ++mode;
    return mode;
}

static int run(enum mode mode, unsigned threads) {
    switch (mode) {
        case kCold:
            return run_cold();
        case kWarm:
            return run_warm();
        case kTouch:
            return run_touch();
        case kStopped:
            emit_and_wait(workers[0].loop);
            return run_steady(threads, 0);
        default:
            return run_steady(threads, mode == kPaused);
    }
}

int main(int argc, char** argv) {
    const int is_complete = argc == 5 || argc == 6;
    const enum mode mode = mode_of(argc == 6 ? argv[5] : "steady");
    loop_function* loop = is_complete ? loop_of(argv[1]) : NULL;
    const uint64_t events = is_complete ? strtoull(argv[2], NULL, 10) : 0;
    const uint64_t repetitions = is_complete ? strtoull(argv[3], NULL, 10) : 0;
    const unsigned threads = is_complete ? (unsigned)strtoul(argv[4], NULL, 10) : 0;
    const int is_single = mode == kCold || mode == kWarm;
    if (loop == NULL || mode == kUnknown || repetitions > kMaxRepetitions || threads < 1 || threads > kMaxThreads ||
        (is_single && (events == 0 || events > kMaxTimed))) {
        fprintf(stderr, "usage: %s EVENT EVENTS REPETITIONS THREADS [paused|cold|warm|touch|stopped]\n", argv[0]);
        return 2;
    }
    for (unsigned i = 0; i < kMaxThreads; ++i)
        workers[i] = (struct worker){
            .cpu = (int)i, .workers = threads, .loop = loop, .events = events, .repetitions = repetitions};
    return run(mode, threads);
}
