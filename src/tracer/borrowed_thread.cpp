#include "tracer/borrowed_thread.hpp"

#include "tracer/thread_state.hpp"

// Without a generation the next event goes through the thread's slow path, which sees that it is lent.
void leat_thread_lend() {
    leat::tracer::thread_state.generation = 0;
    ++leat::tracer::thread_state.is_borrowed;
}

void leat_thread_take_back() { --leat::tracer::thread_state.is_borrowed; }
