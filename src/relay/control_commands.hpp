// What a producer asks for on its control connection, command by command. (docs/formats/relay-ingest.md)
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "relay/relay.hpp"
#include "wire/relay_messages.hpp"

namespace leat::relay {

// What a control connection has come to.
struct Producer {
    Relay* relay = nullptr;
    std::size_t thread = 0;                // of the server
    std::optional<std::uint32_t> minor{};  // since VERSION
    std::shared_ptr<Session> session{};    // since CREATE_SESSION
    bool can_send_datagrams = false;       // it asked, and so may its streams
};

struct CommandOutcome {
    wire::Bytes reply{};
    std::optional<Error> error{};   // what was wrong, for the log
    bool ends_connection = false;   // behind the reply
    bool is_change = false;         // viewers may see something new
    bool must_wait = false;         // nothing was done: the data connection is too far behind; try again later
    std::uint64_t packet_size = 0;  // bytes, of SEND_INDEX
};

// SEND_METADATA is not among them: its bytes are not gathered but written as they come.
CommandOutcome run_command(Producer& producer, wire::RelayCommand command, UntrustedBytes payload);

// Bytes of the largest payload that is believed of a command.
std::uint64_t max_payload(wire::RelayCommand command);

// The connection is gone: whatever was promised on it will not come.
void end_producer(Producer& producer);

}  // namespace leat::relay
