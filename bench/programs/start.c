/* A program that starts, passes one tracepoint, and ends. It shows what a tracer adds to a start. */
#include "events.h"

int main(void) {
    EMIT_two_integers(1, 2);
    return 0;
}
