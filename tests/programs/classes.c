/* classes: events that share their fields, an event of a model, logged lines. tests/interop/tracer.py has the text of
 * each. */
#include <leat/log.h>
#include <leat/tracepoint.h>

#define REQUEST_FIELDS(FIELD)        \
    FIELD(integer, uint32_t, id, id) \
    FIELD(string, owner, owner)
LEAT_EVENT_CLASS(io, request, REQUEST_FIELDS, uint32_t id, const char* owner);
LEAT_EVENT_INSTANCE(io, request, queued, LEAT_INFO, (uint32_t id, const char* owner), (id, owner));
LEAT_EVENT_INSTANCE(io, request, retried, LEAT_WARNING, (uint32_t id, const char* owner), (id, owner));

LEAT_EVENT_INSTANCE_URI(io, request, looked_up, LEAT_INFO, "http://example.org/io/looked_up",
                        (uint32_t id, const char* owner), (id, owner));

LEAT_TRACEPOINT_URI(io, modelled, LEAT_INFO, "http://example.org/io/modelled", LEAT_NO_FIELDS, void);

#define HIDING_FIELDS(FIELD)                                                \
    FIELD(hidden, integer, uint16_t, secret, id)                            \
    FIELD(integer, uint32_t, id, id)                                        \
    FIELD(hidden, string, name, owner)                                      \
    FIELD(string, owner, owner)                                             \
    FIELD(hidden, sequence, uint8_t, bytes, owner, uint32_t, hidden_length) \
    FIELD(integer, uint8_t, last, 9)
LEAT_TRACEPOINT(io, hiding, LEAT_INFO, HIDING_FIELDS, uint32_t id, const char* owner, uint32_t hidden_length);

static void log_lines(void) {
    leat_log(LEAT_ERR, "%d of %s", 2, "three");
    leat_log(LEAT_DEBUG, "plain");
}

int main(void) {
    leat_tracepoint(io, queued, 1, "first");
    leat_tracepoint(io, retried, 2, "second");
    if (leat_enabled(io, queued)) leat_do_tracepoint(io, queued, 3, "third");
    leat_tracepoint(io, modelled);
    leat_tracepoint(io, looked_up, 4, "fourth");
    /* Staged on the stack, and elsewhere. */
    static char large[5000] = "large";
    leat_tracepoint(io, hiding, 5, "small", 3);
    leat_tracepoint(io, hiding, 6, large, sizeof large);
    log_lines();
    return 0;
}
