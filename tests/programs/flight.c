/* flight COUNT END: emits test:count COUNT times, numbered (0: until a signal), as fast as it can, and test:state each
 * time that it asks for a snapshot. It reads letters from stdin before that, one after the other:
 *
 *     s  asks for a snapshot, after COUNT more events
 *     e  emits test:error, after COUNT more events
 *     q  the end, as END says: "exit", "kill", "segv", "abort", "handler" (asks for a snapshot in a handler of SIGSEGV,
 *        and dies of it), "_exit"
 *
 * Each is answered on stdout by the number of events so far, and a newline. */
#include <leat/snapshot.h>
#include <leat/tracepoint.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT_FIELDS(FIELD) FIELD(integer, uint64_t, n, n)
LEAT_TRACEPOINT(test, count, LEAT_INFO, COUNT_FIELDS, uint64_t n);
LEAT_TRACEPOINT(test, error, LEAT_ERR, COUNT_FIELDS, uint64_t n);

static uint64_t number;

static void ask_and_die(int signal_number) {
    leat_snapshot();
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static int end(const char* how) {
    if (strcmp(how, "kill") == 0) raise(SIGKILL);
    if (strcmp(how, "abort") == 0) abort();
    if (strcmp(how, "_exit") == 0) _exit(0);
    if (strcmp(how, "handler") == 0) signal(SIGSEGV, ask_and_die);
    if (strcmp(how, "exit") != 0) raise(SIGSEGV);
    return 0;
}

int main(int argc, char** argv) {
    if (argc != 3) return 2;
    const uint64_t count = strtoull(argv[1], NULL, 10);
    char command = 0;
    while (read(STDIN_FILENO, &command, 1) == 1) {
        for (uint64_t i = 0; count == 0 || i < count; ++i) leat_tracepoint(test, count, number++);
        if (command == 's') leat_snapshot();
        if (command == 'e') leat_tracepoint(test, error, number++);
        printf("%llu\n", (unsigned long long)number);
        fflush(stdout);
        if (command == 'q') break;
    }
    return end(argv[2]);
}
