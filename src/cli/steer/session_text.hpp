// What session daemons answer, for people. These throw if an answer has another form: run_verb() catches.
#pragma once

#include <string>
#include <vector>

#include "cli/json_text.hpp"

namespace leat::cli {

// "a, b": strings and numbers, fit for a terminal.
std::string join(const Json& list);

// ": 12 events, 3 discarded" and a line for each channel that has discarded some. Empty if the answer has no counts.
std::string text_of_counts(const Json& answer);

// " and net://HOST", of a session that goes to a relay beside a directory.
std::string text_of_relay(const Json& place);

// How to read a snapshot, in this directory of this host, or at a relay (empty: none) below its output directory.
std::string text_of_snapshot_place(const std::string& directory, const std::string& relay);

// A line for each session.
std::string text_of_sessions(const Json& sessions);

// All that there is to know of one.
std::string text_of_session(const Json& session);

// How many the daemon has.
std::string text_of_descriptors(const Json& descriptors);

// Programs and their events.
std::string text_of_programs(const Json& programs);

}  // namespace leat::cli
