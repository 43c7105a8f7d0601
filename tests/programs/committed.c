/* committed FILE PAUSE_US [COUNT]: emits test:committed from as many threads as FILE, which is there, has u64 counters:
 * COUNT times from each, without it for ever. A counter says how many events of its thread have been committed by now:
 * whoever kills us knows. Each thread stays on a CPU, and pauses after each 10 events. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <leat/tracepoint.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* What is torn does not have the same number twice. */
#define COMMITTED_FIELDS(FIELD)              \
    FIELD(integer, uint32_t, thread, thread) \
    FIELD(integer, uint64_t, n, n)           \
    FIELD(string, padding, "some")           \
    FIELD(integer, uint64_t, same, n * 7 + thread)
LEAT_TRACEPOINT(test, committed, LEAT_INFO, COMMITTED_FIELDS, uint32_t thread, uint64_t n);

static uint64_t* counters;
static useconds_t pause_us;
static uint64_t most = UINT64_MAX;

static void stay_on_a_cpu(uint32_t thread) {
    cpu_set_t usable;
    if (sched_getaffinity(0, sizeof usable, &usable) != 0) abort();
    uint32_t left = thread % (uint32_t)CPU_COUNT(&usable);
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
        if (!CPU_ISSET(cpu, &usable) || left-- != 0) continue;
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        (void)sched_setaffinity(0, sizeof one, &one);
        return;
    }
}

static void* emit(void* argument) {
    const uint32_t thread = (uint32_t)(uintptr_t)argument;
    stay_on_a_cpu(thread);
    for (uint64_t n = 0; n < most; ++n) {
        leat_tracepoint(test, committed, thread, n);
        __atomic_store_n(&counters[thread], n + 1, __ATOMIC_RELEASE);
        if (pause_us != 0 && n % 10 == 9) usleep(pause_us);
    }
    return NULL;
}

int main(int argc, char** argv) {
    enum { kMaxThreads = 64 };
    pthread_t threads[kMaxThreads];
    struct stat status;
    const int fd = argc < 3 ? -1 : open(argv[1], O_RDWR | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) != 0) return 2;
    const size_t count = (size_t)status.st_size / sizeof *counters;
    if (count == 0 || count > kMaxThreads) return 2;
    void* const memory = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) return 2;
    counters = memory;
    pause_us = (useconds_t)strtoul(argv[2], NULL, 10);
    if (argc > 3) most = strtoull(argv[3], NULL, 10);
    for (size_t i = 0; i < count; ++i)
        if (pthread_create(&threads[i], NULL, emit, (void*)(uintptr_t)i) != 0) return 2;
    for (size_t i = 0; i < count; ++i) pthread_join(threads[i], NULL);
    return 0;
}
