// Histories of daemons that switch tracepoints: see tests/support/switching_model.hpp. Each event is in each channel
// that wants it, or is counted.
#include "support/switching_model.hpp"

#include "model_run.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    return leat::fuzz::run_model<leat::test::SwitchingModel>(data, size);
}
