#pragma once

#include <filesystem>

namespace leat::wire {

// Where the directories of all users' programs are: docs/formats/runtime-directory.md. By LEAT_RUNTIME_DIR.
std::filesystem::path app_directory_parent();

}  // namespace leat::wire
