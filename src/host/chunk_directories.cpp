#include "host/chunk_directories.hpp"

#include <fmt/format.h>

#include "base/local_time.hpp"

namespace leat::host {
namespace {

namespace fs = std::filesystem;

constexpr char kArchives[] = "archives";

std::string text_of(std::time_t time) { return local_time_text(static_cast<std::uint64_t>(time), "%Y%m%dT%H%M%S%z"); }

}  // namespace

Result<void> ChunkDirectories::make_archives() const {
    const fs::path archives = session_ / kArchives;
    std::error_code error;
    fs::create_directories(archives, error);
    if (error) return fail(ErrorKind::kIo, "cannot make {}: {}", archives.string(), error.message());
    return {};
}

// A clock that is set back must not give a name twice: the number at its end is new in any case.
void ChunkDirectories::plan_rotation() {
    const std::time_t now = std::time(nullptr);
    state_.next = session_ / fmt::format("{}-{}", text_of(now), state_.id + 1);
    state_.archived = session_ / kArchives /
                      fmt::format("{}-{}-{}", text_of(state_.start == 0 ? now : state_.start), text_of(now), state_.id);
}

void ChunkDirectories::drop_plan() { state_.next = state_.archived = fs::path(); }

Result<fs::path> ChunkDirectories::rotate() {
    auto archived = archive();
    fs::path path = state_.archived;
    state_ = {.current = state_.next, .start = std::time(nullptr), .id = state_.id + 1};
    if (!archived) return tl::unexpected(std::move(archived).error());
    return path;
}

// The first chunk lies beside the archives, not in a directory of its own.
Result<void> ChunkDirectories::archive() const {
    const fs::path& archived = state_.archived;
    const bool is_first = state_.id == 0;
    const fs::path from = is_first ? state_.current / "ust" : state_.current;
    const fs::path to = is_first ? archived / "ust" : archived;
    std::error_code error;
    std::error_code ignored;
    if (fs::exists(to, ignored)) return {};
    fs::create_directories(is_first ? archived : archived.parent_path(), error);
    // No trace began in this chunk: it is shown as an empty one.
    const bool is_empty = !fs::exists(from, ignored);
    if (!error && is_empty) fs::create_directories(archived, error);
    if (!error && !is_empty) fs::rename(from, to, error);
    if (error)
        return fail(ErrorKind::kIo, "cannot move {} to {}: {}", from.string(), archived.string(), error.message());
    return {};
}

}  // namespace leat::host
