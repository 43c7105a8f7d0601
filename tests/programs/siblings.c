/* siblings MILLISECONDS: two processes on one CPU. One wakes every 20 us with real-time priority and emits, the other
 * emits without pause. When the recorder looks, the records of both wait in the CPU's store buffer, so late ones come
 * in twos and threes. Prints how many events there were. */
#define _GNU_SOURCE
#include <leat/tracepoint.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STEP_FIELDS(FIELD) FIELD(integer, uint64_t, n, n)
LEAT_TRACEPOINT(siblings, step, LEAT_INFO, STEP_FIELDS, uint64_t n);

static uint64_t* counts; /* of both processes */
static volatile sig_atomic_t is_ending;

static void end(int signal_number) {
    (void)signal_number;
    is_ending = 1;
}

static pid_t start(void (*run)(void)) {
    const pid_t child = fork();
    if (child != 0) return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGTERM, end);
    run();
    _exit(0);
}

static void emit_without_pause(void) {
    while (!is_ending) leat_tracepoint(siblings, step, ++counts[0]);
}

static void emit_every_20_us(void) {
    /* If that is not allowed, both processes have the same priority. */
    const struct sched_param priority = {.sched_priority = 1};
    sched_setscheduler(0, SCHED_FIFO, &priority);
    prctl(PR_SET_TIMERSLACK, 1);
    const struct timespec pause = {.tv_nsec = 20000};
    while (!is_ending) {
        nanosleep(&pause, NULL);
        leat_tracepoint(siblings, step, ++counts[1]);
    }
}

int main(int argc, char** argv) {
    if (argc != 2) return 2;
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET((unsigned)sched_getcpu(), &cpus);
    sched_setaffinity(0, sizeof cpus, &cpus);
    counts = mmap(NULL, 2 * sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const pid_t siblings[2] = {start(emit_without_pause), start(emit_every_20_us)};
    usleep((useconds_t)atoi(argv[1]) * 1000);
    for (int i = 0; i < 2; ++i) {
        int status = 0;
        kill(siblings[i], SIGTERM);
        if (waitpid(siblings[i], &status, 0) != siblings[i] || status != 0) return 1;
    }
    printf("%llu\n", (unsigned long long)(counts[0] + counts[1]));
    return 0;
}
