/* The monotonic clock in ns: reading it, and sleeping until a time. */
#ifndef BENCH_MONOTONIC_H
#define BENCH_MONOTONIC_H

#include <errno.h>
#include <stdint.h>
#include <time.h>

static inline int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline void sleep_until(int64_t ns) {
    const struct timespec until = {ns / 1000000000, ns % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {
    }
}

#endif
