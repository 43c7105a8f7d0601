// Commands by which a producer asks whether the relay has stored what it sent. (docs/formats/relay-ingest.md)
#pragma once

#include "relay/ingest/producer.hpp"

namespace leat::relay {

CommandOutcome begin_data_pending(Producer& producer, const wire::IdRequest& message);
CommandOutcome data_pending(Producer& producer, const wire::DataPending& message);
CommandOutcome quiescent_control(Producer& producer, const wire::IdRequest& message);
CommandOutcome end_data_pending(Producer& producer, const wire::IdRequest& message);

}  // namespace leat::relay
