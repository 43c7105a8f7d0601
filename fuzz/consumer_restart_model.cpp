// Histories of writers, output, and consumers that are killed: see tests/support/consumer_restart_model.hpp. Every
// event must be delivered once and in order, or be counted.
#include "support/consumer_restart_model.hpp"

#include "model_run.hpp"

namespace leat::fuzz::consumer_restart_model {

LEAT_FUZZ_TARGET(consumer_restart_model) {
    run_model<test::ConsumerRestartModel>(data, size);
    return run_model<test::TinyConsumerRestartModel>(data, size);
}

}  // namespace leat::fuzz::consumer_restart_model
