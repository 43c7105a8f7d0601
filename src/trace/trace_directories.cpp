#include "trace/trace_directories.hpp"

#include <algorithm>
#include <string>
#include <system_error>

#include "trace/stream_paths.hpp"

namespace leat::trace {
namespace {

namespace fs = std::filesystem;

bool holds_trace(const fs::path& directory) {
    std::error_code ignored;
    return fs::is_regular_file(directory / kMetadataFile, ignored);
}

tl::unexpected<Error> directory_error(const fs::path& path, const std::error_code& error) {
    return fail(ErrorKind::kIo, "cannot read directory {}: {}", path.string(), error.message());
}

// Sorted by name. Symbolic links to directories are not followed: they could lead in circles.
std::vector<fs::path> directories_below(const fs::path& path, std::error_code& error) {
    std::vector<fs::path> directories;
    std::vector<fs::path> unread{path};
    while (!error && !unread.empty()) {
        const fs::path parent = std::move(unread.back());
        unread.pop_back();
        fs::directory_iterator entry(parent, fs::directory_options::skip_permission_denied, error);
        for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
            std::error_code ignored;
            if (!entry->is_directory(ignored)) continue;
            directories.push_back(entry->path());
            if (!entry->is_symlink(ignored)) unread.push_back(entry->path());
        }
        // A session that is rotated or cleared moves and removes directories meanwhile.
        if (error == std::errc::no_such_file_or_directory && parent != path) error.clear();
    }
    std::ranges::sort(directories);
    return directories;
}

}  // namespace

Result<std::vector<fs::path>> find_trace_directories(const fs::path& path) {
    std::error_code error;
    if (!fs::exists(path, error)) return not_found("{} does not exist", path.string());
    if (!fs::is_directory(path, error)) return refused("{} is not a directory", path.string());
    std::vector<fs::path> directories = directories_below(path, error);
    if (error) return directory_error(path, error);
    directories.insert(directories.begin(), path);
    std::erase_if(directories, [](const fs::path& directory) { return !holds_trace(directory); });
    if (directories.empty()) return not_found("{} holds no trace: no file 'metadata' at or below it", path.string());
    return directories;
}

std::vector<fs::path> find_directories(const fs::path& path) {
    std::error_code ignored;
    std::vector<fs::path> directories = directories_below(path, ignored);
    directories.insert(directories.begin(), path);
    return directories;
}

fs::path real_path(const fs::path& directory) {
    std::error_code error;
    fs::path found = fs::canonical(directory, error);
    return error ? directory : found;
}

Result<std::vector<fs::path>> find_stream_files(const fs::path& directory) {
    std::vector<fs::path> files;
    std::error_code error;
    for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
        const std::string name = entry.path().filename().string();
        std::error_code ignored;
        if (name != kMetadataFile && !name.starts_with('.') && entry.is_regular_file(ignored))
            files.push_back(entry.path());
    }
    if (error) return directory_error(directory, error);
    std::ranges::sort(files, {}, &fs::path::native);  // of one directory: names decide
    return files;
}

}  // namespace leat::trace
