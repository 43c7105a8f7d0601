/* processes WAY...: makes a child in each of these ways. The child and the parent emit test:step with the way and with
 * the pid and tid that they themselves see, and print these to stdout, one line an event.
 *
 *     fork, clone (a bare system call), clone_fn (the C library's), vfork, spawn, exec, thread */
#define _GNU_SOURCE
#include <leat/tracepoint.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

#define STEP_FIELDS(FIELD)            \
    FIELD(string, way, way)           \
    FIELD(integer, int32_t, pid, pid) \
    FIELD(integer, int32_t, tid, tid)
LEAT_TRACEPOINT(test, step, LEAT_INFO, STEP_FIELDS, const char* way, int32_t pid, int32_t tid);

static __attribute__((noinline)) void step(const char* way) {
    const int32_t pid = (int32_t)syscall(SYS_getpid);
    const int32_t tid = (int32_t)syscall(SYS_gettid);
    leat_tracepoint(test, step, way, pid, tid);
    char line[100];
    const int size = snprintf(line, sizeof line, "%s %d %d\n", way, pid, tid);
    if (write(STDOUT_FILENO, line, (size_t)size) != size) abort();
}

static void wait_for(pid_t child) {
    int status = 0;
    if (child < 0 || waitpid(child, &status, __WALL) != child || status != 0) abort();
}

static void by_fork(void) {
    const pid_t child = fork();
    if (child == 0) {
        step("fork");
        _exit(0);
    }
    wait_for(child);
}

static void by_system_call(void) {
    const pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (child == 0) {
        step("clone");
        _exit(0);
    }
    wait_for(child);
}

static int cloned(void* argument) {
    step(argument);
    return 0;
}

static void by_clone_function(void) {
    static char stack[256 * 1024] __attribute__((aligned(16)));
    wait_for(clone(cloned, stack + sizeof stack, SIGCHLD, (void*)"clone_fn"));
}

static void by_vfork(char* program) {
    char* const arguments[] = {program, (char*)"child", (char*)"vfork", NULL};
    const pid_t child = vfork();
    if (child == 0) {
        step("vfork_child");
        execv(program, arguments);
        _exit(127);
    }
    wait_for(child);
}

static void by_spawn(char* program) {
    char* const arguments[] = {program, (char*)"child", (char*)"spawn", NULL};
    pid_t child = -1;
    if (posix_spawn(&child, program, NULL, NULL, arguments, environ) != 0) abort();
    wait_for(child);
}

static void* thread(void* argument) {
    step(argument);
    return NULL;
}

static void by_thread(void) {
    pthread_t created;
    pthread_create(&created, NULL, thread, (void*)"thread");
    pthread_join(created, NULL);
}

int main(int argc, char** argv) {
    if (argc == 3 && strcmp(argv[1], "child") == 0) {
        step(argv[2]);
        return 0;
    }
    step("begin");
    for (int i = 1; i < argc; ++i) {
        if (strcmp(argv[i], "fork") == 0) by_fork();
        if (strcmp(argv[i], "clone") == 0) by_system_call();
        if (strcmp(argv[i], "clone_fn") == 0) by_clone_function();
        if (strcmp(argv[i], "vfork") == 0) by_vfork(argv[0]);
        if (strcmp(argv[i], "spawn") == 0) by_spawn(argv[0]);
        if (strcmp(argv[i], "thread") == 0) by_thread();
        step("between");
        if (strcmp(argv[i], "exec") == 0) execl(argv[0], argv[0], "child", "exec", (char*)NULL);
    }
    return 0;
}
