/* A program that starts, meets one tracepoint, and ends: for what a tracer adds to a start. */
#include "events.h"

int main(void) {
    EMIT_two_integers(1, 2);
    return 0;
}
