#pragma once

#include <string>

#include "ctf/model/trace_class.hpp"

namespace leat::viewer {

// What people call a trace, as in babeltrace2: its host, and its path below the directory that they asked for. Either
// may be missing.
[[nodiscard]] std::string trace_name(const ctf::TraceClass& trace_class, const std::string& path);

}  // namespace leat::viewer
