#include "output/trace_directory.hpp"

#include <fmt/format.h>

#include <utility>

#include "ctf/tsdl/tsdl_writer.hpp"

namespace leat::output {
namespace {

namespace fs = std::filesystem;

// Removes the directory `path` below `root`, those above it, and the root: as long as there is nothing else in them.
void remove_empty(const fs::path& root, fs::path path) {
    std::error_code error;
    for (; !path.empty(); path = path.parent_path())
        if (!fs::remove(root / path, error)) return;
    fs::remove(root, error);
}

}  // namespace

Result<void> TraceDirectory::prepare(const fs::path& directory) {
    std::error_code error;
    const bool is_there = fs::exists(directory, error);
    if (is_there && !fs::is_directory(directory, error))
        return refused("{} is no directory: choose another with -o", directory.string());
    if (is_there && !fs::is_empty(directory, error))
        return refused("{} exists and is not empty: choose another with -o", directory.string());
    return make_with_parents(directory);
}

Result<std::unique_ptr<TraceDirectory>> TraceDirectory::create(const fs::path& directory, const fs::path& trace_path,
                                                               std::vector<ChannelFiles> channels,
                                                               std::optional<uid_t> owner) {
    std::unique_ptr<TraceDirectory> output(new TraceDirectory(directory, trace_path));
    output->files_ = LEAT_TRY(TraceFiles::create(directory / trace_path, std::move(channels), owner));
    return output;
}

Result<std::unique_ptr<TraceDirectory>> TraceDirectory::resume(const fs::path& directory, const fs::path& trace_path,
                                                               std::vector<ChannelFiles> channels,
                                                               std::optional<uid_t> owner,
                                                               const TraceFiles::Stored& stored) {
    std::unique_ptr<TraceDirectory> output(new TraceDirectory(directory, trace_path));
    output->files_ = LEAT_TRY(TraceFiles::resume(directory / trace_path, std::move(channels), owner, stored));
    return output;
}

Result<void> TraceDirectory::remove_ended(const fs::path& directory, const std::set<fs::path>& going_on,
                                          const std::vector<ChannelFiles>& channels) {
    std::error_code error;
    std::vector<fs::path> ended;
    // Its owner may have put something else there.
    const auto is_directory = [](const fs::directory_entry& entry) {
        std::error_code unknown;
        return fs::is_directory(entry.symlink_status(unknown));
    };
    // Where the disk fails in the middle, a loop over a range throws.
    for (auto entry = fs::directory_iterator(directory, error); !error && entry != fs::end(entry);
         entry.increment(error))
        if (is_directory(*entry) && !going_on.contains(entry->path())) ended.push_back(entry->path());
    if (error && error != std::errc::no_such_file_or_directory)
        return fail(ErrorKind::kIo, "cannot read {}: {}", directory.string(), error.message());
    Result<void> all_removed;
    for (const fs::path& trace : ended)
        if (auto removed = TraceFiles::remove_ended(trace, channels); !removed && all_removed) all_removed = removed;
    return all_removed;
}

Result<void> TraceDirectory::restore_metadata(std::string_view text) {
    LEAT_TRY(files_->restore_metadata(text));
    metadata_ = text;
    return {};
}

Result<void> TraceDirectory::write_metadata(std::string_view unit) {
    if (auto written = files_->write_metadata(unit); !written) return wrap(place(), written.error());
    metadata_ += unit;
    return {};
}

Result<void> TraceDirectory::write_packet(const consumer::Packet& packet) {
    const std::uint64_t lost = files_->events_lost();
    if (auto written = files_->write_packet(packet); !written) return wrap(place(), written.error());
    if (lost == 0 && files_->events_lost() != 0)
        warnings_.push_back(fmt::format("{} was removed, or files in it: what is recorded there is lost", place()));
    return {};
}

Result<void> TraceDirectory::prepare_chunk(const fs::path& directory) {
    next_root_ = directory;
    next_ = LEAT_TRY(files_->create_next(directory / trace_path_));
    return next_->write_metadata(metadata_);
}

Result<std::string> TraceDirectory::begin_chunk() {
    lost_before_ += files_->events_lost();
    files_ = std::move(next_);
    root_ = std::exchange(next_root_, {});
    ++part_;
    return std::string();
}

void TraceDirectory::drop_chunk() {
    if (next_) next_->remove_trace();
    next_.reset();
    if (!next_root_.empty()) remove_empty(next_root_, trace_path_.parent_path());
    next_root_.clear();
}

Result<void> TraceDirectory::clear() {
    if (auto removed = files_->remove_streams(); !removed) return wrap(place(), std::move(removed).error());
    ++part_;
    return {};
}

Result<std::string> TraceDirectory::set_clock_offset(std::uint64_t offset) {
    std::string moved = LEAT_TRY(ctf::with_clock_offset(metadata_, offset));
    LEAT_TRY(files_->replace_metadata(moved));
    return metadata_ = std::move(moved);
}

void TraceDirectory::remove_if_unused() {
    if (files_->has_streams()) return;
    files_->remove_trace();
    remove_empty(root_, trace_path_.parent_path());
}

}  // namespace leat::output
