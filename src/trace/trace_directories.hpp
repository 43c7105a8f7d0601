#pragma once

#include <filesystem>
#include <vector>

#include "base/result.hpp"

namespace leat::trace {

// The directories at or below `path` that hold a trace (a file `metadata`), in the order of their names. An error if
// there is none.
Result<std::vector<std::filesystem::path>> find_trace_directories(const std::filesystem::path& path);

// `path` and all directories below it.
std::vector<std::filesystem::path> find_directories(const std::filesystem::path& path);

// By which directories are known again, whatever way leads to them; the path itself if nothing is there.
std::filesystem::path real_path(const std::filesystem::path& directory);

// The files of a trace directory that hold its streams: all but `metadata`, hidden files and directories.
Result<std::vector<std::filesystem::path>> find_stream_files(const std::filesystem::path& directory);

}  // namespace leat::trace
