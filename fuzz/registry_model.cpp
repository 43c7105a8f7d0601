// Histories of programs that register: see tests/support/registry_model.hpp. An id always means the same event, and the
// metadata say which.
#include "support/registry_model.hpp"

#include "model_run.hpp"

namespace leat::fuzz::registry_model {

LEAT_FUZZ_TARGET(registry_model) { return run_model<test::RegistryModel>(data, size); }

}  // namespace leat::fuzz::registry_model
