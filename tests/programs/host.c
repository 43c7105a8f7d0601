/* host WAY COUNT [THREADS]: every thread emits test:count COUNT times. The total number goes to stdout, a line to
 * stderr, and the exit status is the lowest free descriptor. A tracer must not change any of these.
 *
 *     plain    nothing else
 *     locked   first locks all its memory, including future memory
 *     timer    the events carry 15 MiB each, and a signal comes every quarter of a millisecond, before a machine that
 *              copies 60 GB/s would be done with one
 *     stop     stops the recorder, its parent, after a third of the events, and continues it after two thirds */
#include <fcntl.h>
#include <leat/tracepoint.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#define COUNT_FIELDS(FIELD)                  \
    FIELD(integer, uint32_t, thread, thread) \
    FIELD(integer, uint64_t, n, n)
LEAT_TRACEPOINT(test, count, LEAT_INFO, COUNT_FIELDS, uint32_t thread, uint64_t n);

#define BLOCK_FIELDS(FIELD) FIELD(sequence, uint8_t, block, block, size_t, size)
LEAT_TRACEPOINT(test, block, LEAT_INFO, BLOCK_FIELDS, const uint8_t* block, size_t size);

static const char* way;
static uint64_t count;

static void on_alarm(int signal) { (void)signal; }

static void start_timer(void) {
    struct sigaction action = {0};
    action.sa_handler = on_alarm;
    sigaction(SIGALRM, &action, NULL);
    const struct itimerval often = {{0, 250}, {0, 250}};
    setitimer(ITIMER_REAL, &often, NULL);
}

static void emit_blocks(void) {
    const size_t size = (size_t)15 << 20;
    uint8_t* block = malloc(size);
    if (block == NULL) abort();
    memset(block, 1, size);
    start_timer();
    for (uint64_t n = 0; n < count; ++n) leat_tracepoint(test, block, block, size);
    free(block);
}

static void emit_counts(uint32_t thread) {
    for (uint64_t n = 0; n < count; ++n) {
        if (strcmp(way, "stop") == 0 && n == count / 3) kill(getppid(), SIGSTOP);
        if (strcmp(way, "stop") == 0 && n == count / 3 * 2) kill(getppid(), SIGCONT);
        leat_tracepoint(test, count, thread, n);
    }
}

static void* emit(void* argument) {
    if (strcmp(way, "timer") == 0)
        emit_blocks();
    else
        emit_counts((uint32_t)(uintptr_t)argument);
    return NULL;
}

int main(int argc, char** argv) {
    enum { kMaxThreads = 1000 };
    static pthread_t threads[kMaxThreads];
    way = argc > 1 ? argv[1] : "plain";
    count = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    const uint64_t thread_count = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    if (thread_count == 0 || thread_count > kMaxThreads) return 100;
    if (strcmp(way, "locked") == 0 && mlockall(MCL_CURRENT | MCL_FUTURE) != 0) return 101;
    for (uint64_t i = 1; i < thread_count; ++i) {
        if (pthread_create(&threads[i], NULL, emit, (void*)(uintptr_t)i) != 0) return 102;
    }
    emit(NULL);
    for (uint64_t i = 1; i < thread_count; ++i) pthread_join(threads[i], NULL);
    printf("%llu\n", (unsigned long long)(count * thread_count));
    fprintf(stderr, "%s\n", way);
    return open("/dev/null", O_RDONLY | O_CLOEXEC);
}
