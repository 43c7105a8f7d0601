/* Waits until its hundred events are on, and says when it found them on.
 *
 *     bench-many-TRACER FILE
 *
 * FILE holds a `struct meeting` that many such programs share. Each looks every 50 ms, so that a thousand of them leave
 * the machine to the tracer. It ends when its meeting is over. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>

#include "many_events.h"
#include "monotonic.h"

enum { kLookNs = 50000000 };

/* bench/daemon.py, Meeting. */
struct meeting {
    uint64_t started;  /* programs */
    uint64_t complete; /* programs whose events are all on */
    uint64_t last_ns;  /* CLOCK_MONOTONIC: when the last of them was complete */
    uint64_t is_over;
};

#define AND_IS_ON(tens, units) &&IS_ON(tens, units)

static int are_all_on(void) { return 1 HUNDRED(AND_IS_ON); }

static void note_complete(struct meeting* meeting) {
    const uint64_t now = (uint64_t)now_ns();
    uint64_t last = __atomic_load_n(&meeting->last_ns, __ATOMIC_RELAXED);
    while (last < now &&
           !__atomic_compare_exchange_n(&meeting->last_ns, &last, now, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    __atomic_add_fetch(&meeting->complete, 1, __ATOMIC_RELEASE);
}

int main(int argc, char** argv) {
    const int fd = argc == 2 ? open(argv[1], O_RDWR | O_CLOEXEC) : -1;
    struct meeting* meeting = mmap(NULL, sizeof *meeting, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (meeting == MAP_FAILED) {
        fprintf(stderr, "usage: bench-many FILE\n");
        return 2;
    }
    __atomic_add_fetch(&meeting->started, 1, __ATOMIC_RELEASE);
    int is_complete = 0;
    for (int64_t next = now_ns(); !__atomic_load_n(&meeting->is_over, __ATOMIC_RELAXED); sleep_until(next)) {
        if (!is_complete && (is_complete = are_all_on())) note_complete(meeting);
        next += is_complete ? 20 * (int64_t)kLookNs : kLookNs;
    }
    return 0;
}
