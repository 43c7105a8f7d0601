/* A library with a tracepoint of its own, loaded while its program runs: see plugin_host.c. */
#include <leat/tracepoint.h>

#define WORK_FIELDS(FIELD) FIELD(integer, uint32_t, n, n)
LEAT_TRACEPOINT(plugin, work, LEAT_INFO, WORK_FIELDS, uint32_t n);

LEAT_EXPORT void plugin_work(uint32_t n);
void plugin_work(uint32_t n) { leat_tracepoint(plugin, work, n); }
