/* sticky: keeps the names of queues as the lines on its stdin say, and answers each with one line.
 *
 *     set KEY NAME      the name of the queue KEY
 *     line KEY NAME     the same by a one-line event of C++
 *     forget KEY        neither has a name any more
 *     fill N            names for the queues 1000 up to 1000 + N
 *     large KEY         a name that is too large to be kept
 *     fork              a child does the same from now on; it ends with our stdin
 *     race N            names the queue 1 N times, each time by a larger number
 *     emit N            emits queue:tick N times
 */
#include <leat/sticky.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAMED_FIELDS(FIELD)               \
    FIELD(hidden, integer, uint8_t, h, 7) \
    FIELD(integer, uint64_t, id, id)      \
    FIELD(string, name, name)
LEAT_STICKY_EVENT(queue, named, LEAT_INFO, NAMED_FIELDS, uint64_t id, const char* name);
#define TICK_FIELDS(FIELD) FIELD(integer, uint64_t, n, n)
LEAT_TRACEPOINT(queue, tick, LEAT_INFO, TICK_FIELDS, uint64_t n);

void sticky_line(uint64_t key, const char* name);
void forget_line(uint64_t key);

static void set(uint64_t key, const char* name) { leat_sticky(queue, named, key, key, name); }

static void forget(uint64_t key) {
    leat_forget(queue, named, key);
    forget_line(key);
}

static void fill(uint64_t count) {
    for (uint64_t key = 1000; key < 1000 + count; ++key) set(key, "one of many");
}

static void set_large(uint64_t key) {
    static char name[5000];
    memset(name, 'x', sizeof name - 1);
    set(key, name);
}

static void race(uint64_t count) {
    char name[32];
    static uint64_t next;
    for (const uint64_t end = next + count; next < end; ++next) {
        snprintf(name, sizeof name, "%llu", (unsigned long long)next);
        set(1, name);
    }
}

static void emit(uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) leat_tracepoint(queue, tick, i);
}

/* The child goes on with our input; we end with it. */
static void hand_over(void) {
    const pid_t child = fork();
    if (child == 0) return;
    int status;
    waitpid(child, &status, 0);
    _exit(WEXITSTATUS(status));
}

static void obey(const char* verb, uint64_t number, const char* name) {
    if (strcmp(verb, "set") == 0) set(number, name);
    if (strcmp(verb, "line") == 0) sticky_line(number, name);
    if (strcmp(verb, "forget") == 0) forget(number);
    if (strcmp(verb, "fill") == 0) fill(number);
    if (strcmp(verb, "large") == 0) set_large(number);
    if (strcmp(verb, "fork") == 0) hand_over();
    if (strcmp(verb, "race") == 0) race(number);
    if (strcmp(verb, "emit") == 0) emit(number);
}

int main(void) {
    char line[4096];
    while (fgets(line, sizeof line, stdin) != NULL) {
        char verb[16] = "";
        char name[4096] = "";
        unsigned long long number = 0;
        if (sscanf(line, "%15s %llu %4095s", verb, &number, name) < 1) return 1;
        obey(verb, number, name);
        if (printf("%d\n", (int)getpid()) < 0 || fflush(stdout) != 0) return 1;
    }
    return 0;
}
