// What must be known of a trace, beside what lies in its memory, to go on with it or to recover it: as JSON. The keeper
// of a session daemon has it, and the directory of rings that are files (docs/formats/ring-files.md).
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "host/destination.hpp"
#include "session/channel.hpp"
#include "session/trace.hpp"

namespace leat::host {

nlohmann::json trace_json(const session::Trace& trace);
struct KnownTrace {
    session::Trace::Parameters parameters;
    session::Trace::Shape shape;
};
// Throws nlohmann::json::exception if a member is not there.
KnownTrace trace_from(const nlohmann::json& described);

// Of a trace whose memory is in files. The version is that of all of them.
inline constexpr int kMemoryVersion = 2;
struct DescribedTrace : KnownTrace {
    std::vector<session::Channel> channels;  // what of them says how their records and rings look
    std::string stored_in{};                 // a directory; empty: a relay has it
    bool is_of_this_boot = false;            // the kernel has kept the files as programs left them
};
// All its memory is there: from now on, it can be recovered, but not as long as we live.
Result<void> describe_memory(session::Trace& trace, const Destination& destination);
// Any text. All that it says is possible.
Result<DescribedTrace> parse_memory(const std::string& text);

}  // namespace leat::host
