/* commanded: does what the lines on its stdin say, and answers each with one line.
 *
 *     emit N       emits order:tick, order:tock and stock:tick N times each. The answer: how often so far
 *     load PATH    opens tests/programs/plugin.c; "unload" closes it
 *     work N       emits plugin:work N times from it
 *     fork N       emits N times from a child of fork(), which then ends
 *     exec PATH    becomes that program
 *     leave        makes a child by a bare system call, which goes on in its place, and ends by exit()
 *
 * It ends with its stdin, or at SIGUSR1 by exit(), wherever it is. With LEAT_TEST_OTHER_FIELD or LEAT_TEST_OTHER_LEVEL,
 * its order:tick is another event of the same name. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <leat/tracepoint.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef LEAT_TEST_OTHER_FIELD
#define TICK_FIELDS(FIELD) FIELD(integer, int16_t, n, (int16_t)n)
#else
#define TICK_FIELDS(FIELD) FIELD(integer, uint64_t, n, n)
#endif
#ifdef LEAT_TEST_OTHER_LEVEL
#define TICK_LEVEL LEAT_ERR
#else
#define TICK_LEVEL LEAT_INFO
#endif
#define N_FIELDS(FIELD) FIELD(integer, uint64_t, n, n)
LEAT_TRACEPOINT(order, tick, TICK_LEVEL, TICK_FIELDS, uint64_t n);
LEAT_TRACEPOINT(order, tock, LEAT_DEBUG, N_FIELDS, uint64_t n);
LEAT_TRACEPOINT(stock, tick, LEAT_WARNING, N_FIELDS, uint64_t n);

static uint64_t emitted;
static uint64_t worked;
static void* plugin;

static void emit(uint64_t count) {
    for (uint64_t end = emitted + count; emitted < end; ++emitted) {
        leat_tracepoint(order, tick, emitted);
        leat_tracepoint(order, tock, emitted);
        leat_tracepoint(stock, tick, emitted);
    }
}

static void work(uint64_t count) {
    void (*function)(uint32_t) = (void (*)(uint32_t))dlsym(plugin, "plugin_work");
    for (uint64_t end = worked + count; worked < end; ++worked) function((uint32_t)worked);
}

static void emit_in_child(uint64_t count) {
    const pid_t child = fork();
    if (child == 0) {
        emit(count);
        _exit(0);
    }
    waitpid(child, NULL, 0);
}

static void leave(void) {
    if (syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL) != 0) exit(0);
}

static int obey(char* line) {
    char* const argument = strchr(line, ' ');
    const uint64_t count = argument == NULL ? 0 : strtoull(argument, NULL, 10);
    if (strncmp(line, "emit ", 5) == 0) emit(count);
    if (strncmp(line, "work ", 5) == 0) work(count);
    if (strncmp(line, "fork ", 5) == 0) emit_in_child(count);
    if (strncmp(line, "exec ", 5) == 0) return execl(argument + 1, argument + 1, (char*)NULL);
    if (strcmp(line, "leave") == 0) leave();
    if (strncmp(line, "load ", 5) == 0) plugin = dlopen(argument + 1, RTLD_NOW | RTLD_LOCAL);
    if (strncmp(line, "load ", 5) == 0 && plugin == NULL) return -1;
    if (strcmp(line, "unload") == 0 && dlclose(plugin) != 0) return -1;
    return printf("%llu\n", (unsigned long long)emitted);
}

static void end(int number) {
    (void)number;
    exit(0);
}

int main(void) {
    char line[4096];
    signal(SIGUSR1, end);
    while (fgets(line, sizeof line, stdin) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (obey(line) < 0 || fflush(stdout) != 0) return 1;
    }
    return 0;
}
