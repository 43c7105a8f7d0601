// The traces that a command line names.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "ctf/model/clock.hpp"
#include "viewer/read/recorded_trace.hpp"

namespace leat::cli {

// Whether a session must have a trace, or is waited for.
enum class Begun : std::uint8_t { kNow, kLater };
// Puts the trace of a session in the place of its name, and the current session's in the place of none. Names of files
// and relays stay.
Result<void> put_sessions_traces(std::vector<std::string>& traces, Begun begun);
// The same for a command that reads traces on disk alone.
Result<void> put_traces_on_disk(std::vector<std::string>& traces);

// Of none: the newest trace here that `leat record` has made.
Result<std::vector<std::filesystem::path>> paths_of(const std::vector<std::string>& traces);

struct NamedTraces {
    const viewer::RecordedTraces& traces;  // for as long as the process lives
    std::size_t denied = 0;                // directories that may not be read, of which the user was warned
};

// Opens all traces at or below those paths, and warns of directories that may not be read. `shift`: of their clocks.
Result<NamedTraces> open_named_traces(const std::vector<std::string>& traces, const ctf::ClockShift& shift = {});

// An error if a file of this name would be among those of the traces.
Result<void> check_outside_of_traces(const std::string& output, std::span<const std::filesystem::path> traces);

// For the end: an error if not all of them could be read.
Result<void> check_all_read(const NamedTraces& named);
Result<void> check_none_denied(std::size_t directories);

void warn_of_denied(std::span<const std::filesystem::path> directories);

}  // namespace leat::cli
