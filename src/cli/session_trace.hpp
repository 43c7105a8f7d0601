#pragma once

#include <optional>
#include <string>

#include "base/result.hpp"

namespace leat::cli {

// Where the trace of a session of the daemon can be read: a directory, or net://HOST/host/TARGET/SESSION. Without a
// name, the current session is meant. Nothing if no daemon runs, or if it has no such session.
Result<std::optional<std::string>> find_session_trace(const std::optional<std::string>& session);

}  // namespace leat::cli
