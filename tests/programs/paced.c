/* paced COUNT INTERVAL_US [THREADS]: every thread emits test:paced COUNT times, numbered, at that interval. All threads
 * begin when a line comes on stdin. */
#include <leat/tracepoint.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PACED_FIELDS(FIELD)                  \
    FIELD(integer, uint32_t, thread, thread) \
    FIELD(integer, uint64_t, n, n)
LEAT_TRACEPOINT(test, paced, LEAT_INFO, PACED_FIELDS, uint32_t thread, uint64_t n);

static uint64_t count;
static useconds_t interval;

static void* emit(void* argument) {
    const uint32_t thread = (uint32_t)(uintptr_t)argument;
    for (uint64_t n = 0; n < count; ++n) {
        leat_tracepoint(test, paced, thread, n);
        if (interval != 0) usleep(interval);
    }
    return NULL;
}

int main(int argc, char** argv) {
    enum { kMaxThreads = 64 };
    pthread_t threads[kMaxThreads];
    if (argc < 3) return 2;
    count = strtoull(argv[1], NULL, 10);
    interval = (useconds_t)strtoul(argv[2], NULL, 10);
    const uint64_t thread_count = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    if (thread_count > kMaxThreads) return 2;
    (void)getchar();
    for (uint64_t i = 1; i < thread_count; ++i) pthread_create(&threads[i], NULL, emit, (void*)(uintptr_t)i);
    emit(NULL);
    for (uint64_t i = 1; i < thread_count; ++i) pthread_join(threads[i], NULL);
    return 0;
}
