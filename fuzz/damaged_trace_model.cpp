// Damage to traces: see tests/support/damaged_trace_model.hpp. What is repaired is read to its end, and has most of
// what nobody touched.
#include "support/damaged_trace_model.hpp"

#include "fuzz_input.hpp"
#include "model_run.hpp"

namespace leat::fuzz::damaged_trace_model {

LEAT_FUZZ_TARGET(damaged_trace_model) { return run_model<test::DamagedTraceModel>(data, size); }

}  // namespace leat::fuzz::damaged_trace_model
