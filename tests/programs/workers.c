/* workers COUNT EVENTS [UID]: a master and its workers, as servers have them.
 *
 * Reads lines. "work": makes COUNT children at once. Each becomes user UID, if that is given, emits worker:step EVENTS
 * times, with its user and the numbers from 0 on, and stays; prints how many events that were when all have emitted.
 * "end": the workers end. "forever": makes workers that end by themselves, some at a time, until standard input ends.
 * "users N": becomes user UID and itself again, N times, and emits an event as each. "masks N": the same by seteuid().
 * The master emits worker:master for each line. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <leat/tracepoint.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define STEP_FIELDS(FIELD)             \
    FIELD(integer, uint32_t, uid, uid) \
    FIELD(integer, int32_t, pid, pid)  \
    FIELD(integer, int32_t, n, n)
LEAT_TRACEPOINT(worker, step, LEAT_INFO, STEP_FIELDS, uint32_t uid, int32_t pid, int32_t n);
LEAT_TRACEPOINT(worker, master, LEAT_INFO, STEP_FIELDS, uint32_t uid, int32_t pid, int32_t n);

static int count, events, uid = -1;

static void emit_steps(void) {
    const pid_t pid = getpid();
    for (int32_t n = 0; n < events; ++n) leat_tracepoint(worker, step, geteuid(), pid, n);
}

static void become_user(void) {
    if (uid >= 0 && (setgid((gid_t)uid) != 0 || setuid((uid_t)uid) != 0)) abort();
}

/* Returns the end of a pipe that ends the workers when it is closed. */
static int make_workers(void) {
    int life[2];
    int done[2];
    if (pipe(life) != 0 || pipe(done) != 0) abort();
    for (int i = 0; i < count; ++i) {
        const pid_t child = fork();
        if (child < 0) abort();
        if (child != 0) continue;
        close(life[1]);
        become_user();
        emit_steps();
        char byte = 0;
        if (write(done[1], &byte, 1) != 1) abort();
        (void)!read(life[0], &byte, 1);
        _exit(0);
    }
    for (int i = 0; i < count; ++i) {
        char byte;
        if (read(done[0], &byte, 1) != 1) abort();
    }
    close(life[0]);
    close(done[0]);
    close(done[1]);
    return life[1];
}

static void wait_for_all(void) {
    int status;
    while (wait(&status) > 0)
        if (status != 0) abort();
}

static void work_forever(void) {
    struct pollfd input = {STDIN_FILENO, POLLIN, 0};
    int made = 0;
    for (int running = 0; poll(&input, 1, 0) == 0;) {
        const pid_t child = fork();
        if (child < 0) abort();
        if (child == 0) {
            become_user();
            emit_steps();
            _exit(0);
        }
        ++made;
        if (++running >= count && wait(NULL) > 0) --running;
    }
    wait_for_all();
    printf("%d\n", made);
}

static void change_users(int times, int is_mask) {
    for (int32_t n = 0; n < times; ++n) {
        if ((is_mask ? seteuid((uid_t)uid) : setresuid((uid_t)uid, (uid_t)uid, 0)) != 0) abort();
        leat_tracepoint(worker, step, geteuid(), getpid(), n);
        if ((is_mask ? seteuid(0) : setresuid(0, 0, 0)) != 0) abort();
        leat_tracepoint(worker, step, geteuid(), getpid(), n);
    }
    printf("%d\n", 2 * times);
}

int main(int argument_count, char** arguments) {
    if (argument_count < 3) return 2;
    count = atoi(arguments[1]);
    events = atoi(arguments[2]);
    if (argument_count > 3) uid = atoi(arguments[3]);
    setvbuf(stdout, NULL, _IOLBF, 0);
    char line[100];
    int life = -1;
    for (int32_t n = 0; fgets(line, sizeof line, stdin) != NULL; ++n) {
        leat_tracepoint(worker, master, geteuid(), getpid(), n);
        int times = 0;
        if (strcmp(line, "work\n") == 0) {
            life = make_workers();
            printf("%d\n", count * events);
        } else if (strcmp(line, "forever\n") == 0) {
            work_forever();
        } else if (sscanf(line, "users %d", &times) == 1) {
            change_users(times, 0);
        } else if (sscanf(line, "masks %d", &times) == 1) {
            change_users(times, 1);
        } else {
            close(life);
            wait_for_all();
            printf("0\n");
        }
    }
    return 0;
}
