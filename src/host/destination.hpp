#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "host/recording.hpp"
#include "net/relay_address.hpp"
#include "output/relay_snapshot.hpp"

namespace leat::host {

// Where a session's traces go.
struct Destination {
    std::filesystem::path directory{};         // empty: the relay alone
    std::optional<net::RelayAddress> relay{};  // beside a directory, or alone
    bool is_live = false;                      // read while it runs
    // Each trace in a directory is given to the user whose programs it is about: for root's daemon.
    bool belongs_to_users = false;

    [[nodiscard]] bool has_directory() const { return !directory.empty(); }
    [[nodiscard]] bool has_both() const { return has_directory() && relay; }
};

// Refuses what a session of snapshots cannot go to.
Result<void> check_place_of_snapshots(const Destination& destination);
Result<void> check_relay_of_snapshots(const net::RelayAddress& relay);

// Sees to it that there is such a place: makes the directory, which must be new or empty; or asks the relay, if that is
// all. May wait.
Result<void> prepare(const Destination& destination);
// Whether the relay is there. May wait.
Result<void> reach_relay(const Destination& destination);

// Opens the output of one trace, and waits for nobody: a relay may come later. `progress`: of the trace's streams, if
// it is kept; where a trace was adopted, the output goes on there.
Result<std::unique_ptr<consumer::Output>> open_output(const session::Trace& trace, const std::string& session_name,
                                                      const Destination& destination,
                                                      const consumer::Progress* progress = nullptr);
// The same, but where a relay is all, it must be there: waits for it.
Result<std::unique_ptr<consumer::Output>> open_output_that_is_there(const session::Trace& trace,
                                                                    const std::string& session_name,
                                                                    const Destination& destination);

// Opens the way of one trace of a snapshot to a relay, which must be there: waits for it.
Result<std::unique_ptr<output::RelaySnapshot>> open_snapshot(const session::Trace& trace,
                                                             const std::string& session_name,
                                                             std::uint64_t session_start,
                                                             const net::RelayAddress& relay,
                                                             const output::SnapshotDescription& snapshot);

Recording::Parameters recording_parameters(const Destination& destination);

}  // namespace leat::host
