/* signals COUNT: the main thread emits test:main COUNT times. SIGALRM comes as often as the kernel gives it, and its
 * handler emits test:handler. Each numbers its own events. Prints both numbers. */
#include <leat/tracepoint.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>

#define NUMBER_FIELDS(FIELD) FIELD(integer, uint64_t, n, n)
LEAT_TRACEPOINT(test, main, LEAT_INFO, NUMBER_FIELDS, uint64_t n);
LEAT_TRACEPOINT(test, handler, LEAT_INFO, NUMBER_FIELDS, uint64_t n);

static volatile uint64_t handled;

static void on_alarm(int signal) {
    (void)signal;
    leat_tracepoint(test, handler, handled);
    handled = handled + 1;
}

int main(int argc, char** argv) {
    const uint64_t count = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000;
    struct sigaction action = {0};
    action.sa_handler = on_alarm;
    sigaction(SIGALRM, &action, NULL);
    struct itimerval often = {{0, 50}, {0, 50}};
    setitimer(ITIMER_REAL, &often, NULL);
    uint64_t n = 0;
    while (n < count || handled < 50) leat_tracepoint(test, main, n++);
    const struct itimerval never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &never, NULL);
    printf("%llu %llu\n", (unsigned long long)n, (unsigned long long)handled);
    return 0;
}
