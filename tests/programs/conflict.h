/* One tracepoint that two files of a program share, as most are. */
#include <leat/tracepoint.h>
#include <stdint.h>

#define SHARED_FIELDS(FIELD) FIELD(integer, uint32_t, n, n) FIELD(string, from, from)
LEAT_TRACEPOINT(io, shared, LEAT_INFO, SHARED_FIELDS, uint32_t n, const char* from);

void second(uint32_t n);
