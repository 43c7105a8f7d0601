#include "tracer/borrowed_thread.hpp"

#include "tracer/thread_state.hpp"

// The next event does not go straight, so it is seen that the thread is lent.
void leat_thread_lend() {
    leat::tracer::thread_state.straight_to = nullptr;
    leat::tracer::thread_state.generation = 0;
    ++leat::tracer::thread_state.is_borrowed;
}

void leat_thread_take_back() { --leat::tracer::thread_state.is_borrowed; }
