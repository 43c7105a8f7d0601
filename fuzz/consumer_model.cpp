// Histories of writers, consumer and output, including faults: see tests/support/consumer_model.hpp. Every event must
// be delivered once and in order, or be counted.
#include "support/consumer_model.hpp"

#include "model_run.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    return leat::fuzz::run_model<leat::test::ConsumerModel>(data, size);
}
