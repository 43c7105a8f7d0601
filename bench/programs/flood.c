/* Emits events at a given rate, as a busy program does: in bursts, a millisecond apart.
 *
 *     bench-flood-TRACER EVENTS_PER_SECOND SECONDS THREADS
 *
 * bench:string, 46 bytes in LTTng's trace. Prints the number of events, the seconds that they took (more than
 * SECONDS if the program could not keep up), and the CPU time in seconds. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "events.h"
#include "monotonic.h"

enum { kMaxThreads = 64, kBurstsPerSecond = 1000 };

static const char* volatile text = "thirty-one characters of a name";

struct worker {
    uint64_t burst; /* events */
    uint64_t bursts;
    int64_t begin; /* ns */
};

static double cpu_seconds(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void* work(void* argument) {
    const struct worker* worker = argument;
    const char* const string = text;
    for (uint64_t burst = 0; burst < worker->bursts; ++burst) {
        sleep_until(worker->begin + (int64_t)(burst * (1000000000 / kBurstsPerSecond)));
        for (uint64_t i = 0; i < worker->burst; ++i) EMIT_string(string, i);
    }
    return NULL;
}

int main(int argc, char** argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: bench-flood EVENTS_PER_SECOND SECONDS THREADS\n");
        return 2;
    }
    const uint64_t rate = strtoull(argv[1], NULL, 10);
    const uint64_t seconds = strtoull(argv[2], NULL, 10);
    const unsigned threads = (unsigned)atoi(argv[3]);
    if (rate == 0 || seconds == 0 || threads == 0 || threads > kMaxThreads) return 2;
    struct worker worker = {rate / kBurstsPerSecond / threads, seconds * kBurstsPerSecond, now_ns()};
    pthread_t ids[kMaxThreads];
    for (unsigned i = 0; i < threads; ++i)
        if (pthread_create(&ids[i], NULL, work, &worker) != 0) return 1;
    for (unsigned i = 0; i < threads; ++i) pthread_join(ids[i], NULL);
    const double took = (double)(now_ns() - worker.begin) / 1e9;
    printf("%llu %.6f %.6f\n", (unsigned long long)(worker.burst * worker.bursts * threads), took, cpu_seconds());
    return 0;
}
