// Histories of programs that register: see tests/support/registry_model.hpp. An id always means the same event, and the
// metadata say which.
#include "support/registry_model.hpp"

#include "model_run.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    return leat::fuzz::run_model<leat::test::RegistryModel>(data, size);
}
