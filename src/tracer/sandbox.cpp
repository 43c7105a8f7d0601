#include "tracer/sandbox.hpp"

namespace {

bool is_known = false;

}  // namespace

bool leat::tracer::is_sandboxed() { return __atomic_load_n(&is_known, __ATOMIC_RELAXED); }

void leat_sandbox_begins() { __atomic_store_n(&is_known, true, __ATOMIC_RELAXED); }
