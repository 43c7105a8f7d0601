#include "children_events.h"

#include <leat/tracepoint.h>

#define STEP_FIELDS(FIELD) FIELD(integer, int32_t, pid, pid) FIELD(integer, int32_t, tid, tid)
LEAT_TRACEPOINT(child, step, LEAT_INFO, STEP_FIELDS, int32_t pid, int32_t tid);
LEAT_TRACEPOINT(child, busy, LEAT_INFO, LEAT_NO_FIELDS, void);

LEAT_EXPORT void child_step(int32_t pid, int32_t tid) { leat_tracepoint(child, step, pid, tid); }
LEAT_EXPORT void child_busy(void) { leat_tracepoint(child, busy); }
