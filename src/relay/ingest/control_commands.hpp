// What a producer asks for on its control connection, command by command. (docs/formats/relay-ingest.md)
#pragma once

#include "relay/ingest/producer.hpp"

namespace leat::relay {

// SEND_METADATA is not among them: its bytes are not gathered but written as they come.
CommandOutcome run_command(Producer& producer, wire::RelayCommand command, UntrustedBytes payload);

// Bytes of the largest payload that is believed of a command.
std::uint64_t max_payload(wire::RelayCommand command);

}  // namespace leat::relay
