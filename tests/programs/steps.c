/* steps: does what the lines on its stdin say, and answers each with one line: how often it has emitted so far.
 *
 *     emit N        emits steps:tick N times, numbered from 0 on
 *     fork N        likewise, from a child of fork(), which then ends
 *     exec PATH     becomes this program, another name of ours, which goes on with the numbers
 *     load PATH     chooses tests/programs/steps_library.c
 *     work N        opens it, emits steps_library:tick once from it, and closes it; N times
 *     set KEY       keeps steps:kept of this key, with the next value
 *     forget KEY    does not keep it any more
 *
 * Each event's context steps:number is the number of the event. LEAT_TEST_STEPS is a file, which is shared with
 * children and with whoever wants to know how far a program came that was killed: see steps_library.h. */
#include <dlfcn.h>
#include <fcntl.h>
#include <leat/context.h>
#include <leat/sticky.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "steps_library.h"

#define TICK_FIELDS(FIELD)         \
    FIELD(string, padding, "some") \
    FIELD(integer, uint64_t, n, n)
LEAT_TRACEPOINT(steps, tick, LEAT_INFO, TICK_FIELDS, uint64_t n);
#define KEPT_FIELDS(FIELD)            \
    FIELD(integer, uint64_t, id, key) \
    FIELD(integer, uint64_t, value, value)
LEAT_STICKY_EVENT(steps, kept, LEAT_INFO, KEPT_FIELDS, uint64_t key, uint64_t value);

static struct step_counts* counts;
static uint64_t last_value;
static char library[4096];

LEAT_CONTEXT(steps, number, uint64, counts->emitted)

static void emit(uint64_t count) {
    for (const uint64_t end = counts->emitted + count; counts->emitted < end; ++counts->emitted)
        leat_tracepoint(steps, tick, step_evaluated(counts));
}

static void emit_in_child(uint64_t count) {
    const pid_t child = fork();
    if (child == 0) {
        emit(count);
        _exit(0);
    }
    counts->child = (uint64_t)child;
    waitpid(child, NULL, 0);
}

static int work(uint64_t count) {
    for (; count != 0; --count) {
        void* const opened = dlopen(library, RTLD_NOW | RTLD_LOCAL);
        if (opened == NULL) return -1;
        void (*emit_one)(struct step_counts*) = (void (*)(struct step_counts*))dlsym(opened, "steps_library_emit");
        emit_one(counts);
        if (dlclose(opened) != 0) return -1;
    }
    return 0;
}

static void set(uint64_t key) {
    ++last_value;
    leat_sticky(steps, kept, key, key, last_value);
}

static int answer(void) { return printf("%llu\n", (unsigned long long)counts->emitted) < 0 ? -1 : fflush(stdout); }

static int obey(const char* verb, const char* argument) {
    const uint64_t number = strtoull(argument, NULL, 10);
    if (strcmp(verb, "emit") == 0) emit(number);
    if (strcmp(verb, "fork") == 0) emit_in_child(number);
    if (strcmp(verb, "exec") == 0) return execl(argument, argument, "again", NULL);
    if (strcmp(verb, "load") == 0) memcpy(library, argument, strlen(argument) + 1);
    if (strcmp(verb, "work") == 0 && work(number) != 0) return -1;
    if (strcmp(verb, "set") == 0) set(number);
    if (strcmp(verb, "forget") == 0) leat_forget(steps, kept, number);
    return answer();
}

static int map_counts(void) {
    const char* const path = getenv("LEAT_TEST_STEPS");
    const int fd = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);
    void* const memory = mmap(NULL, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) return -1;
    counts = memory;
    return 0;
}

int main(int argc, char** argv) {
    (void)argv;
    char line[4200];
    if (map_counts() != 0 || leat_context_provide(&leat_context_steps_number) != 0) return 1;
    if (argc > 1 && answer() != 0) return 1;
    while (fgets(line, sizeof line, stdin) != NULL) {
        char verb[16] = "";
        char argument[4096] = "";
        if (sscanf(line, "%15s %4095s", verb, argument) < 1) return 1;
        if (obey(verb, argument) != 0) return 1;
    }
    return 0;
}
