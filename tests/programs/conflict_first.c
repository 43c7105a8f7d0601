/* Two files that describe "io:queued" in two ways, as happens when a program grows: tests/interop/tracer.py. */
#include <stdio.h>

#include "conflict.h"

#define QUEUED_FIELDS(FIELD) FIELD(integer, uint32_t, n, n)
LEAT_TRACEPOINT(io, queued, LEAT_INFO, QUEUED_FIELDS, uint32_t n);

int main(void) {
    for (uint32_t n = 0; n < 500; ++n) {
        leat_tracepoint(io, queued, n);
        leat_tracepoint(io, shared, n, "first");
        second(n);
    }
    puts("500");
    return 0;
}
