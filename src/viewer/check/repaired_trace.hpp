#pragma once

#include <filesystem>

#include "base/result.hpp"
#include "viewer/check/check_progress.hpp"
#include "viewer/check/trace_check.hpp"

namespace leat::viewer {

// Writes all that can be read to a new directory, which is there when it is whole. Several traces are directories
// beside each other. An error if there is something of that name. `progress`: of the check, and of one pass more.
Result<void> write_repaired_trace(const TraceCheck& check, const std::filesystem::path& directory,
                                  CheckProgress& progress);

}  // namespace leat::viewer
