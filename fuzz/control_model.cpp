// Histories of a control socket and its clients: see tests/support/control_model.hpp. Each request is done once, and
// answered in its turn.
#include "support/control_model.hpp"

#include "model_run.hpp"

namespace leat::fuzz::control_model {

LEAT_FUZZ_TARGET(control_model) { return run_model<test::ControlModel>(data, size); }

}  // namespace leat::fuzz::control_model
