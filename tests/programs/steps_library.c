/* A library with an event of its own, which steps.c opens and closes. */
#include "steps_library.h"

#include <leat/tracepoint.h>

#define TICK_FIELDS(FIELD)         \
    FIELD(string, padding, "some") \
    FIELD(integer, uint64_t, n, n)
LEAT_TRACEPOINT(steps_library, tick, LEAT_INFO, TICK_FIELDS, uint64_t n);

LEAT_EXPORT void steps_library_emit(struct step_counts* counts);
void steps_library_emit(struct step_counts* counts) {
    leat_tracepoint(steps_library, tick, step_evaluated(counts));
    ++counts->emitted;
}
