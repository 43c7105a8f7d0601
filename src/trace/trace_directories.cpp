#include "trace/trace_directories.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "trace/stream_paths.hpp"

namespace leat::trace {
namespace {

namespace fs = std::filesystem;

tl::unexpected<Error> directory_error(const fs::path& path, const std::error_code& error) {
    const bool is_short = error == std::errc::too_many_files_open || error == std::errc::too_many_files_open_in_system;
    return fail(is_short ? ErrorKind::kDiskFull : ErrorKind::kIo, "cannot read directory {}: {}", path.string(),
                error.message());
}

using FileId = std::pair<dev_t, ino_t>;

std::optional<FileId> id_of(const fs::path& directory) {
    struct stat status {};
    if (::stat(directory.c_str(), &status) != 0) return std::nullopt;
    return FileId{status.st_dev, status.st_ino};
}

// Goes through the directories below one, each once. Symbolic links are followed when all else has been seen: what they
// lead to may have been by then. One that leads back above, or to `/`, is not: that would be another walk.
class Walk {
  public:
    explicit Walk(const fs::path& path) : top_(path) {
        if (const auto id = id_of(path)) seen_.insert(*id);
        unread_.push_back(path);
    }

    // With those that may not be read.
    TraceDirectories run(std::error_code& error) {
        while (!error && (!unread_.empty() || follow_next_link())) {
            const fs::path parent = std::move(unread_.back());
            unread_.pop_back();
            read(parent, error);
            // A session that is rotated or cleared moves and removes directories meanwhile.
            if (error == std::errc::no_such_file_or_directory && parent != top_) error.clear();
            if (!error || (error != std::errc::permission_denied && parent == top_)) continue;
            deny(parent);
            error.clear();
        }
        std::ranges::sort(below_.paths);
        return std::move(below_);
    }

  private:
    void read(const fs::path& parent, std::error_code& error) {
        fs::directory_iterator entry(parent, error);
        for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
            std::error_code of_entry;
            const bool is_directory = entry->is_directory(of_entry);
            if (of_entry == std::errc::permission_denied) deny(entry->path());
            if (!is_directory) continue;
            if (!entry->is_symlink(of_entry))
                see(entry->path());
            else
                links_.insert(entry->path());
        }
    }

    // Links may lead to any tree, where people keep other things, too: what cannot be read there is no trace that is
    // missing.
    void deny(const fs::path& path) {
        if (!is_behind_links_) below_.denied.push_back(path);
    }

    void see(const fs::path& directory) {
        const auto id = id_of(directory);
        if (!id || (is_behind_links_ && seen_.size() >= kMostBehindLinks) || !seen_.insert(*id).second) return;
        below_.paths.push_back(directory);
        unread_.push_back(directory);
    }

    // False: none is left that leads to anything new.
    bool follow_next_link() {
        while (unread_.empty() && !links_.empty()) {
            is_behind_links_ = true;
            const fs::path link = std::move(links_.extract(links_.begin()).value());
            if (!is_inside(top_, link)) see(link);
        }
        return !unread_.empty();
    }

    static constexpr std::size_t kMostBehindLinks = 100'000;

    const fs::path top_;
    bool is_behind_links_ = false;
    std::set<FileId> seen_{};
    std::vector<fs::path> unread_{};
    std::set<fs::path> links_{};
    TraceDirectories below_{};
};

// Moves those that hold a trace to the end of `found`, or those of which nobody may see it.
void sort_out(const fs::path& directory, TraceDirectories& found) {
    std::error_code error;
    if (fs::is_regular_file(directory / kMetadataFile, error)) found.paths.push_back(directory);
    if (error == std::errc::permission_denied) found.denied.push_back(directory);
}

}  // namespace

Result<TraceDirectories> find_trace_directories(const fs::path& path) {
    std::error_code error;
    if (!fs::exists(path, error)) {
        if (error) return directory_error(path, error);
        return not_found("{} does not exist", path.empty() ? "\"\"" : path.string());
    }
    if (!fs::is_directory(path, error)) return refused("{} is not a directory", path.string());
    TraceDirectories below = Walk(path).run(error);
    if (error) return directory_error(path, error);
    TraceDirectories found{.paths = {}, .denied = std::move(below.denied)};
    sort_out(path, found);
    for (const fs::path& directory : below.paths) sort_out(directory, found);
    std::ranges::sort(found.denied);
    found.denied.erase(std::ranges::unique(found.denied).begin(), found.denied.end());
    if (!found.paths.empty() || !found.denied.empty()) return found;
    return not_found("{} holds no trace: no file 'metadata' at or below it", path.string());
}

Error denied_error(const fs::path& path) {
    std::error_code error;
    const fs::directory_iterator ignored(path, error);
    return directory_error(path, error ? error : std::make_error_code(std::errc::permission_denied)).value();
}

std::vector<fs::path> find_directories(const fs::path& path) {
    std::error_code ignored;
    std::vector<fs::path> directories = Walk(path).run(ignored).paths;
    directories.insert(directories.begin(), path);
    return directories;
}

fs::path real_path(const fs::path& directory) {
    std::error_code error;
    fs::path found = fs::canonical(directory, error);
    return error ? directory : found;
}

bool is_inside(const fs::path& path, const fs::path& directory) {
    std::error_code error;
    const fs::path inside = fs::weakly_canonical(fs::absolute(path, error), error);
    const fs::path outside = real_path(directory);
    return !error && std::ranges::mismatch(outside, inside).in1 == outside.end();
}

Result<std::vector<fs::path>> find_stream_files(const fs::path& directory) {
    std::vector<fs::path> files;
    std::error_code error;
    for (fs::directory_iterator at(directory, error); !error && at != end(at); at.increment(error)) {
        const std::string name = at->path().filename().string();
        std::error_code ignored;
        if (name != kMetadataFile && !name.starts_with('.') && at->is_regular_file(ignored))
            files.push_back(at->path());
    }
    if (error) return directory_error(directory, error);
    std::ranges::sort(files, {}, &fs::path::native);  // of one directory: names decide
    return files;
}

}  // namespace leat::trace
