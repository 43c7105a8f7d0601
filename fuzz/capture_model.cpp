// Histories of writers, a capture's blocks and whoever writes them, including faults: see
// tests/support/capture_model.hpp. Every event must be in a file, or be counted.
#include "support/capture_model.hpp"

#include "model_run.hpp"

namespace leat::fuzz::capture_model {

LEAT_FUZZ_TARGET(capture_model) { return run_model<test::CaptureModel>(data, size); }

}  // namespace leat::fuzz::capture_model
