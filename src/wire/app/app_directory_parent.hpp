#pragma once

#include <filesystem>
#include <optional>

#include "base/result.hpp"

namespace leat::wire {

// LEAT_RUNTIME_DIR; none: it is not set. A relative path is an error: programs, which are started anywhere, go by none.
Result<std::optional<std::filesystem::path>> runtime_directory();

// Where the directories of all users' programs are: docs/formats/runtime-directory.md. By LEAT_RUNTIME_DIR.
std::filesystem::path app_directory_parent();

}  // namespace leat::wire
