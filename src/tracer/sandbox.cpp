#include "tracer/sandbox.hpp"

#include "tracer/thread_state.hpp"

namespace {

bool is_known = false;

}  // namespace

bool leat::tracer::is_sandboxed() { return __atomic_load_n(&is_known, __ATOMIC_RELAXED); }

// A child of vfork() has its parent's memory, and is another process.
void leat_sandbox_begins() {
    if (leat::tracer::thread_state.is_shared == 0) __atomic_store_n(&is_known, true, __ATOMIC_RELAXED);
}
