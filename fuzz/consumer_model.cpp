// Histories of writers, consumer and output, including faults: see tests/support/consumer_model.hpp. Every event must
// be delivered once and in order, or be counted.
#include "support/consumer_model.hpp"

#include "model_run.hpp"

namespace leat::fuzz::consumer_model {

LEAT_FUZZ_TARGET(consumer_model) {
    run_model<test::ConsumerModel>(data, size);
    return run_model<test::TinyConsumerModel>(data, size);
}

}  // namespace leat::fuzz::consumer_model
