/* Preloaded into a daemon: it is killed before the Nth call that changes something outside of it. LEAT_TEST_COUNTDOWN
 * is a file: {u64 N}, 0 for never. Others write into it, and see how much is left. Only the process that loaded us is
 * killed, no child of it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static uint64_t* countdown;
static pid_t loaded_by;

__attribute__((constructor)) static void begin(void) {
    const char* const path = getenv("LEAT_TEST_COUNTDOWN");
    const int fd = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);
    void* const memory = mmap(NULL, sizeof *countdown, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    loaded_by = getpid();
    if (memory != MAP_FAILED) countdown = memory;
}

static void count(void) {
    if (countdown == NULL || getpid() != loaded_by) return;
    uint64_t left = __atomic_load_n(countdown, __ATOMIC_RELAXED);
    while (left != 0 &&
           !__atomic_compare_exchange_n(countdown, &left, left - 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
    }
    if (left == 1) kill(loaded_by, SIGKILL);
}

/* All of them take six integers or pointers at most, and return one. */
typedef long Function(long, long, long, long, long, long);

#define COUNTED(name)                                                     \
    Function counted_##name __asm__(#name);                               \
    long counted_##name(long a, long b, long c, long d, long e, long f) { \
        static Function* next;                                            \
        if (next == NULL) *(void**)&next = dlsym(RTLD_NEXT, #name);       \
        count();                                                          \
        return next(a, b, c, d, e, f);                                    \
    }

COUNTED(fchmod)
COUNTED(fchown)
COUNTED(fcntl)
COUNTED(flock)
COUNTED(ftruncate)
COUNTED(memfd_create)
COUNTED(mkdir)
COUNTED(mkdirat)
COUNTED(mmap)
COUNTED(munmap)
COUNTED(open)
COUNTED(openat)
COUNTED(pwrite)
COUNTED(remove)
COUNTED(rename)
COUNTED(renameat)
COUNTED(rmdir)
COUNTED(send)
COUNTED(sendmsg)
COUNTED(unlink)
COUNTED(unlinkat)
COUNTED(write)
COUNTED(writev)
