// Sessions as JSON: for `list`, `status` and `save`; and back, for `load`.
#pragma once

#include <nlohmann/json.hpp>

#include "base/result.hpp"
#include "session/channel.hpp"
#include "sessiond/request.hpp"
#include "sessiond/tracing.hpp"

namespace leat::sessiond {

// Of a session.
inline constexpr std::size_t kMaxChannels = 256;

// {"output": DIR or URL}, and "relay" beside a directory.
nlohmann::json places_json(const Place& place);

// As `list` and `status` show it.
nlohmann::json shown(const DaemonSession& session, const Applications& applications);

// One channel, as `list` and `status` show it, without its figures.
nlohmann::json channel_json(const session::Channel& channel, session::Session::Buffers buffers);

// {channel: {reason: count}}, of all channels; and how many events went into packets.
nlohmann::json discarded(const DaemonSession& session);
// In its trace: those that only ask for snapshots are in none.
std::uint64_t event_count(const DaemonSession& session);

// As `list`, `status` and `enable-event` show it.
nlohmann::json conflict_json(const session::Session::KnownConflict& known);

// What `load` takes.
nlohmann::json definition_of(const DaemonSession& session);

// The lane is left open. The caller checks the members: what is wrong with them comes first.
Result<Definition> read_definition(Members& members);

// "duration_us" and "max_size".
session::Limits read_limits(Members& members);
// Patterns of the events that ask for a snapshot.
std::vector<std::string> read_snapshot_on(Members& members);

// By their names. Fails on a name that is none.
Result<session::Contexts> contexts_of(const std::vector<std::string>& names);

// Parts of definitions and of requests, which name them alike.
Result<session::EventRule> rule_of(Members& members);
// Fills in what is there.
Result<void> read_channel(Members& members, session::Channel& channel);
// Refuses a channel that cannot be in a session of snapshots, or in another.
Result<void> check_mode(const session::Channel& channel, bool is_for_snapshots);
// Refuses channels that cannot be in one session: whose files would be called alike, or whose clocks differ.
Result<void> check_together(const session::Channel& one, const session::Channel& other);

}  // namespace leat::sessiond
