// Histories of daemons that switch tracepoints: see tests/support/switching_model.hpp. Each event is in each channel
// that wants it, or is counted.
#include "support/switching_model.hpp"

#include "model_run.hpp"

namespace leat::fuzz::switching_model {

LEAT_FUZZ_TARGET(switching_model) { return run_model<test::SwitchingModel>(data, size); }

}  // namespace leat::fuzz::switching_model
