// What a producer asks for on its control connection, command by command. (docs/formats/relay-ingest.md)
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "relay/relay.hpp"
#include "wire/ingest/relay_messages.hpp"

namespace leat::relay {

// What a control connection has come to.
struct Producer {
    Relay* relay = nullptr;
    std::size_t thread = 0;  // of the server
    Principal principal{};
    std::optional<std::uint32_t> minor{};  // since VERSION
    std::shared_ptr<Session> session{};    // since CREATE_SESSION
    // Of a peer that knows no chunks, by what it calls them.
    std::map<std::string, std::shared_ptr<SessionDirectory>> old_directories{};
    bool can_send_datagrams = false;  // it asked, and so may its streams
    std::uint64_t creation_time = 0;  // of the session, here; seconds since 1970
    Changes changes{};                // that are not on disk yet, or not shown
};

struct CommandOutcome {
    wire::Bytes reply{};
    std::optional<Error> error{};     // what was wrong, for the log
    bool ends_connection = false;     // behind the reply
    std::vector<UniqueFd> to_sync{};  // these are on disk before the reply goes
    bool must_wait = false;           // nothing was done: the data connection is too far behind; try again later
    std::uint64_t packet_size = 0;    // bytes, of SEND_INDEX

    // Nothing was done: the command is to be run again.
    [[nodiscard]] bool is_disk_full() const { return error && error->kind == ErrorKind::kDiskFull; }
};

// SEND_METADATA is not among them: its bytes are not gathered but written as they come.
CommandOutcome run_command(Producer& producer, wire::RelayCommand command, UntrustedBytes payload);

// Bytes of the largest payload that is believed of a command.
std::uint64_t max_payload(wire::RelayCommand command);

// The connection is gone: whatever was promised on it will not come.
void end_producer(Producer& producer);

}  // namespace leat::relay
