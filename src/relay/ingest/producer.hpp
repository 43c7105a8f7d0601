// What a control connection knows of its producer, and what its commands work with and come to.
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
    std::optional<std::uint32_t> minor{};      // since VERSION
    std::shared_ptr<StoredSession> session{};  // since CREATE_SESSION
    // Directories of a peer that knows no chunks, by the names that it gives them.
    std::map<std::string, std::shared_ptr<SessionDirectory>> old_directories{};
    bool can_send_datagrams = false;  // it asked, and so may its streams
    std::uint64_t creation_time = 0;  // of the session, here; seconds since 1970
    Changes changes{};                // that are not on disk yet, or not shown
};

// A stream, or the trace of a metadata stream, by the handle that the producer knows. Null: there is none.
std::shared_ptr<SessionStream> find_stream(Producer& producer, std::uint64_t handle);
std::shared_ptr<Trace> find_metadata(Producer& producer, std::uint64_t handle);

// The connection is gone: whatever was promised on it will not come.
void end_producer(Producer& producer);

// What a command has come to.
struct CommandOutcome {
    wire::Bytes reply{};
    std::optional<Error> error{};     // what was wrong, for the log
    bool ends_connection = false;     // after the reply
    std::vector<Unsynced> to_sync{};  // must be on disk before the reply goes
    bool must_wait = false;           // nothing was done: the data connection is too far behind; try again later
    std::uint64_t packet_size = 0;    // bytes, of SEND_INDEX

    // Nothing was done: the command is to be run again.
    [[nodiscard]] bool is_disk_full() const { return error && error->kind == ErrorKind::kDiskFull; }
};

CommandOutcome replied(wire::RelayCode with);
// Replies, then ends the connection: LTTng's producers take every error for the end, and LTTng's relay does the same.
CommandOutcome failed(wire::RelayCode with, Error error);
// Ends the connection without a reply.
CommandOutcome disconnected(Error error);

}  // namespace leat::relay
