/* Emits events that carry the time of their emission.
 *
 *     bench-tick-TRACER COUNT GAP_US SPREAD_US [WARM_UP]
 *
 * bench:two_integers, a = number, b = CLOCK_MONOTONIC in ns. The gap to the next event is GAP_US and a random part of
 * up to SPREAD_US. First come WARM_UP events (default 100) with negative numbers, 20 ms apart, while a viewer finds the
 * session. Then come COUNT events, from number 0 on; then 50 more, from COUNT on, so that a viewer that looks for the
 * next event finds one. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "events.h"
#include "monotonic.h"

enum { kWarmUp = 100, kWarmUpGapUs = 20000, kAfter = 50 };

static int64_t emit(int32_t begin, int32_t end, int64_t next, int64_t gap_us, int64_t spread_us) {
    for (int32_t number = begin; number < end; ++number) {
        sleep_until(next);
        const int64_t now = now_ns();
        EMIT_two_integers(number, now);
        next += 1000 * (gap_us + (spread_us > 0 ? rand() % spread_us : 0));
    }
    return next;
}

int main(int argc, char** argv) {
    if (argc != 4 && argc != 5) {
        fprintf(stderr, "usage: bench-tick COUNT GAP_US SPREAD_US [WARM_UP]\n");
        return 2;
    }
    const int32_t count = atoi(argv[1]);
    const int64_t gap_us = atoll(argv[2]);
    const int64_t spread_us = atoll(argv[3]);
    const int32_t warm_up = argc == 5 ? atoi(argv[4]) : kWarmUp;
    srand(1);
    int64_t next = emit(-warm_up, 0, now_ns(), kWarmUpGapUs, 0);
    next = emit(0, count, next, gap_us, spread_us);
    emit(count, count + kAfter, next, kWarmUpGapUs, 0);
    return 0;
}
