#pragma once

#include <filesystem>
#include <vector>

#include "base/result.hpp"

namespace leat::trace {

struct TraceDirectories {
    // Both in the order of their names.
    std::vector<std::filesystem::path> paths{};
    std::vector<std::filesystem::path> denied{};  // cannot be read, and so may hold more
};

// The directories at or below `path` that hold a trace (a file `metadata`), also through symbolic links: each once, by
// the path without links if there is one; what cannot be read behind links is passed over. An error if there is none,
// unless there may be one where nobody may look.
Result<TraceDirectories> find_trace_directories(const std::filesystem::path& path);

// What people are told of one that cannot be read.
Error denied_error(const std::filesystem::path& path);

// `path` and all directories below it, each once, through links as find_trace_directories() does.
std::vector<std::filesystem::path> find_directories(const std::filesystem::path& path);

// By which directories are known again, whatever way leads to them; the path itself if nothing is there.
std::filesystem::path real_path(const std::filesystem::path& directory);

// Whether a path, which may be of something new, is this directory or leads to what is in it.
bool is_inside(const std::filesystem::path& path, const std::filesystem::path& directory);

// The files of a trace directory that hold its streams: all but `metadata`, hidden files and directories.
Result<std::vector<std::filesystem::path>> find_stream_files(const std::filesystem::path& directory);

}  // namespace leat::trace
