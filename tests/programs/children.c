/* children WAY MILLISECONDS THREADS: makes children in this way, one after the other, for this long and at least six,
 * while THREADS threads emit without pause. Each child emits a few events, and so does the parent between two children.
 * A library emits them, and nothing in this program knows of tracing. Prints how many events were emitted in total, and
 * by how many children.
 *
 *     fork, vfork, raw_vfork (the bare instruction), clone_vfork (CLONE_VM and a stack), clone_vm (likewise, and we are
 *     not asleep meanwhile, but say nothing: both would use one thread-local state), none, vfork_exit (its child ends
 * by exit(), as who forgets _exit(): then destructors run in our memory)
 *
 * Linked with libleat itself, which knows of such children by their calls, also:
 *
 *     clone_vm_beside (clone_vm, and we emit meanwhile), syscall_vfork */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "children_events.h"

enum { kEventsOfAChild = 5, kFewest = 6 };

/* The counts include those of forked children. */
static struct counts {
    uint64_t events;
    uint64_t children;
    bool is_ending;
}* counts;

static void emit(uint32_t n) {
    for (uint32_t i = 0; i < n; ++i) child_step((int32_t)syscall(SYS_getpid), (int32_t)syscall(SYS_gettid));
    __atomic_add_fetch(&counts->events, n, __ATOMIC_RELAXED);
}

static int run_child(void* unused) {
    (void)unused;
    emit(kEventsOfAChild);
    __atomic_add_fetch(&counts->children, 1, __ATOMIC_RELAXED);
    return 0;
}

static char stack[256 * 1024] __attribute__((aligned(16)));

/* Its return address must not lie on the stack that the child uses. */
static inline __attribute__((always_inline)) pid_t raw_vfork(void) {
    long child = SYS_vfork;
    __asm__ volatile("syscall" : "+a"(child) : : "rcx", "r11", "memory");
    return (pid_t)child;
}

static pid_t make_child(const char* way) {
    if (strcmp(way, "clone_vfork") == 0)
        return clone(run_child, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
    if (strncmp(way, "clone_vm", 8) == 0) return clone(run_child, stack + sizeof stack, CLONE_VM | SIGCHLD, NULL);
    pid_t child = -1;
    if (strcmp(way, "fork") == 0) child = fork();
    if (strcmp(way, "vfork") == 0) child = vfork();
    if (strcmp(way, "vfork_exit") == 0) {
        child = vfork();
        if (child == 0) exit(run_child(NULL));
    }
    if (strcmp(way, "raw_vfork") == 0) child = raw_vfork();
    if (strcmp(way, "syscall_vfork") == 0) child = (pid_t)syscall(SYS_vfork);
    if (child == 0) _exit(run_child(NULL));
    return child;
}

static void* emit_without_pause(void* unused) {
    (void)unused;
    while (!__atomic_load_n(&counts->is_ending, __ATOMIC_RELAXED)) {
        child_busy();
        __atomic_add_fetch(&counts->events, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

static int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int main(int argc, char** argv) {
    if (argc != 4) return 2;
    const bool makes_children = strcmp(argv[1], "none") != 0;
    const int64_t until = now_ms() + atoi(argv[2]);
    pthread_t threads[64];
    const int thread_count = atoi(argv[3]);
    counts = mmap(NULL, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < thread_count; ++i) pthread_create(&threads[i], NULL, emit_without_pause, NULL);
    while (now_ms() < until || (makes_children && __atomic_load_n(&counts->children, __ATOMIC_RELAXED) < kFewest)) {
        emit(3);
        const pid_t child = makes_children ? make_child(argv[1]) : 0;
        if (child < 0) abort();
        /* Without delay: what the parent keeps ready must be its own again. */
        if (strcmp(argv[1], "clone_vm") != 0) emit(3);
        int status = 0;
        if (makes_children && (waitpid(child, &status, __WALL) != child || status != 0)) abort();
        emit(3);
    }
    counts->is_ending = true;
    for (int i = 0; i < thread_count; ++i) pthread_join(threads[i], NULL);
    printf("%llu %llu\n", (unsigned long long)counts->events, (unsigned long long)counts->children);
    return 0;
}
