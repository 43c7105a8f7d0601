// Histories of writers, consumer and output, faults among them: see tests/support/consumer_model.hpp. Nothing may be
// lost, told twice, or told out of order without being counted.
#include "support/consumer_model.hpp"

#include "model_run.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    return leat::fuzz::run_model<leat::test::ConsumerModel>(data, size);
}
