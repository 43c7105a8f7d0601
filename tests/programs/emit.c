/* emit COUNT [THREADS] [END]: every thread emits test:count COUNT times, numbered, as fast as it can. Then the total
 * number goes to stdout. END: "kill" ends with SIGKILL, "term" with SIGTERM, "wait" sleeps until a signal comes,
 * "exit3" exits with 3. With LEAT_TEST_SAYS_WHETHER_ON in the environment, a program that nobody traces says so on
 * stderr, and which control file it has. */
#include <leat/tracepoint.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define COUNT_FIELDS(FIELD)                  \
    FIELD(integer, uint32_t, thread, thread) \
    FIELD(integer, uint64_t, n, n)
LEAT_TRACEPOINT(test, count, LEAT_INFO, COUNT_FIELDS, uint32_t thread, uint64_t n);

#define DONE_FIELDS(FIELD) FIELD(integer, uint64_t, emitted, emitted)
LEAT_TRACEPOINT(test, done, LEAT_WARNING, DONE_FIELDS, uint64_t emitted);

static uint64_t count;

static void* emit(void* argument) {
    const uint32_t thread = (uint32_t)(uintptr_t)argument;
    for (uint64_t n = 0; n < count; ++n) leat_tracepoint(test, count, thread, n);
    return NULL;
}

static int end(const char* how) {
    if (strcmp(how, "kill") == 0) raise(SIGKILL);
    if (strcmp(how, "term") == 0) raise(SIGTERM);
    if (strcmp(how, "wait") == 0) pause();
    return strcmp(how, "exit3") == 0 ? 3 : 0;
}

static void say_whether_on(void) {
    if (getenv("LEAT_TEST_SAYS_WHETHER_ON") == NULL || *leat_tracepoint_test__count.word != 0) return;
    char line[512];
    char file[sizeof line] = "/none\n";
    FILE* const maps = fopen("/proc/self/maps", "r");
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL)
        if (strstr(line, ".app\n") != NULL) strcpy(file, strrchr(line, '/'));
    if (maps != NULL) fclose(maps);
    fprintf(stderr, "off: %s", file + 1);
}

int main(int argc, char** argv) {
    enum { kMaxThreads = 64 };
    pthread_t threads[kMaxThreads];
    count = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    const uint64_t thread_count = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    if (thread_count > kMaxThreads) return 2;
    for (uint64_t i = 1; i < thread_count; ++i) pthread_create(&threads[i], NULL, emit, (void*)(uintptr_t)i);
    emit(NULL);
    for (uint64_t i = 1; i < thread_count; ++i) pthread_join(threads[i], NULL);
    leat_tracepoint(test, done, count * thread_count);
    printf("%llu\n", (unsigned long long)(count * thread_count + 1));
    fflush(stdout);
    say_whether_on();
    return end(argc > 3 ? argv[3] : "");
}
