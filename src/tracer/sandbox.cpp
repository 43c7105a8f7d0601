#include "tracer/sandbox.hpp"

#include <stdlib.h>

#include "tracer/thread_state.hpp"

namespace {

bool is_known = false;
bool is_ending = false;

// A child of vfork() has its parent's memory, and is another process.
void set(bool& fact) {
    if (leat::tracer::thread_state.is_shared == 0) __atomic_store_n(&fact, true, __ATOMIC_RELAXED);
}

// Functions of atexit() run before destructors of libraries, which dlclose() runs, too.
void note_end() { set(is_ending); }
[[gnu::constructor]] void look_out_for_end() { (void)atexit(note_end); }

}  // namespace

bool leat::tracer::is_sandboxed() { return __atomic_load_n(&is_known, __ATOMIC_RELAXED); }

bool leat::tracer::ends_in_sandbox() { return is_sandboxed() && __atomic_load_n(&is_ending, __ATOMIC_RELAXED); }

void leat_sandbox_begins() { set(is_known); }
