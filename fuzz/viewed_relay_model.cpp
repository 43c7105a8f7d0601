// What relays may do to a viewer: see tests/support/viewed_relay_model.hpp.
#include "support/viewed_relay_model.hpp"

#include "fuzz_input.hpp"
#include "model_run.hpp"

namespace leat::fuzz::viewed_relay_model {

LEAT_FUZZ_TARGET(viewed_relay_model) { return run_model<test::ViewedRelayModel>(data, size); }

}  // namespace leat::fuzz::viewed_relay_model
