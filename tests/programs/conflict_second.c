#include "conflict.h"

#define QUEUED_FIELDS(FIELD) FIELD(string, owner, "somebody") FIELD(integer, uint64_t, length, n)
LEAT_TRACEPOINT(io, queued, LEAT_INFO, QUEUED_FIELDS, uint32_t n);

#define CLOSED_FIELDS(FIELD) FIELD(integer, uint32_t, n, n)
LEAT_TRACEPOINT(io, closed, LEAT_INFO, CLOSED_FIELDS, uint32_t n);

void second(uint32_t n) {
    leat_tracepoint(io, queued, n);
    leat_tracepoint(io, shared, n, "second");
    leat_tracepoint(io, closed, n);
}
