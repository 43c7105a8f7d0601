/* A program for LTTng, not for us. For each line "FIRST COUNT" on stdin it emits test:tick with these numbers, and
 * answers with a line. */
#include <stdint.h>
#include <stdio.h>

#include "lttng_ticks_provider.h"

int main(void) {
    unsigned first = 0;
    unsigned count = 0;
    puts("ready");
    fflush(stdout);
    while (scanf("%u %u", &first, &count) == 2) {
        for (uint64_t n = first; n < first + count; ++n) lttng_ust_tracepoint(test, tick, n);
        puts("done");
        fflush(stdout);
    }
    return 0;
}
