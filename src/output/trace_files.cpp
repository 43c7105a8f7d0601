#include "output/trace_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/file.hpp"
#include "trace/index_format.hpp"
#include "trace/stream_paths.hpp"

namespace leat::output {
namespace {

namespace fs = std::filesystem;

// Hidden from readers, until it takes the place of the other.
constexpr char kNewMetadataFile[] = ".metadata.new";

Result<UniqueFd> open_directory(int in, const fs::path& path) {
    UniqueFd fd(::openat(in, path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (fd.is_open()) return fd;
    if (errno == ENOENT) return not_found("{} is not there", path.string());
    if (errno == ENOTDIR || errno == ELOOP) return refused("{} is no directory", path.string());
    return io_error(fmt::format("cannot open {}", path.string()));
}

Result<UniqueFd> make_directory(int in, const fs::path& path) {
    const bool is_made = ::mkdirat(in, path.c_str(), 0770) == 0;
    if (!is_made && errno == EEXIST) return refused("something else is called {}", path.string());
    if (!is_made) return io_error(fmt::format("cannot create {}", path.string()));
    auto opened = open_directory(in, path);
    if (!opened) ::unlinkat(in, path.c_str(), AT_REMOVEDIR);
    return opened;
}

// Its owner may have put a directory in their place, which makes no trace.
bool has_metadata(int trace_directory) {
    struct stat status {};
    return ::fstatat(trace_directory, trace::kMetadataFile, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
           !S_ISDIR(status.st_mode);
}

}  // namespace

Result<void> make_with_parents(const fs::path& path) {
    std::error_code error;
    fs::create_directories(path, error);
    if (error) return fail(ErrorKind::kIo, "cannot create {}: {}", path.string(), error.message());
    return {};
}

Result<std::unique_ptr<TraceFiles>> TraceFiles::create(const fs::path& directory, std::vector<ChannelFiles> channels,
                                                       std::optional<uid_t> owner) {
    return create(directory, std::move(channels), owner, 0);
}

Result<std::unique_ptr<TraceFiles>> TraceFiles::create_next(const fs::path& directory) const {
    return create(directory, channels_, owner_, sync_ ? sync_->horizon() : 0);
}

Result<std::unique_ptr<TraceFiles>> TraceFiles::create(const fs::path& directory, std::vector<ChannelFiles> channels,
                                                       std::optional<uid_t> owner, std::uint64_t horizon) {
    std::unique_ptr<TraceFiles> output(new TraceFiles(directory, std::move(channels), owner));
    const auto made = output->make(Existing::kRefused, horizon);
    if (made) return output;
    output->remove_trace();
    return tl::unexpected(made.error());
}

Result<std::unique_ptr<TraceFiles>> TraceFiles::resume(const fs::path& directory, std::vector<ChannelFiles> channels,
                                                       std::optional<uid_t> owner, const Stored& stored) {
    std::unique_ptr<TraceFiles> output(new TraceFiles(directory, std::move(channels), owner));
    LEAT_TRY(output->make(Existing::kTaken, 0));
    const std::vector<std::string> indexes = LEAT_TRY(names_in(output->index_fd_.get()));
    for (const auto& [stream, next] : stored) {
        auto files = LEAT_TRY(StreamFiles::reopen(output->place_of(stream), next, indexes));
        if (files) output->streams_.emplace(stream, *std::move(files));
    }
    return output;
}

Result<void> TraceFiles::make(Existing existing, std::uint64_t horizon) {
    LEAT_TRY(make_directories(existing));
    // Create the sync file before the metadata: a file `metadata` makes the directory a trace, which can then be
    // followed.
    if (auto sync = trace::SyncWriter::create(trace_fd_.get(), horizon)) {
        LEAT_TRY(files_.give(sync->fd(), kOwnersFile));
        sync_ = *std::move(sync);
    }
    if (existing == Existing::kTaken) ::unlinkat(trace_fd_.get(), kNewMetadataFile, 0);
    auto known = existing == Existing::kTaken ? files_.open(trace_fd_.get(), trace::kMetadataFile)
                                              : Result<GrowingFile>(not_found("not looked for"));
    if (!known && known.error().kind != ErrorKind::kNotFound) return tl::unexpected(std::move(known).error());
    metadata_ = known ? *std::move(known) : LEAT_TRY(files_.create(trace_fd_.get(), trace::kMetadataFile));
    LEAT_TRY(give_directories());
    are_names_counted_ = !is_directory_removed() && !is_removed(metadata_.fd.get());
    return {};
}

// Unlinks the sync file first; its lock goes with the member. So followers see the end, and nobody finds a sync file
// that has no writer.
TraceFiles::~TraceFiles() {
    if (sync_) ::unlinkat(trace_fd_.get(), trace::kSyncFileName, 0);
}

Result<void> TraceFiles::make_directories(Existing existing) {
    std::error_code error;
    if (existing == Existing::kRefused && fs::exists(fs::symlink_status(trace_, error)))
        return refused("{} exists already", trace_.string());
    const fs::path of_user = trace_.parent_path();
    LEAT_TRY(make_with_parents(of_user));
    const UniqueFd user_fd = LEAT_TRY(open_directory(AT_FDCWD, of_user));
    const auto take_or_make = [&](int in, const fs::path& path) -> Result<UniqueFd> {
        auto found = existing == Existing::kTaken ? open_directory(in, path) : not_found("not looked for");
        if (!found && found.error().kind == ErrorKind::kNotFound) found = make_directory(in, path);
        if (!found) return wrap(trace_.string(), std::move(found).error());
        return found;
    };
    trace_fd_ = LEAT_TRY(take_or_make(user_fd.get(), trace_.filename()));
    index_fd_ = LEAT_TRY(take_or_make(trace_fd_.get(), trace::kIndexDirectory));
    return {};
}

// When all is made: in a directory of its own, the owner may put something else in the place of what comes next.
Result<void> TraceFiles::give_directories() const {
    for (const int fd : {index_fd_.get(), trace_fd_.get()}) LEAT_TRY(files_.give(fd, kOwnersDirectory));
    const fs::path of_user = trace_.parent_path();
    if (!owner_ || of_user.filename() != std::to_string(*owner_)) return {};
    const UniqueFd user_fd = LEAT_TRY(open_directory(AT_FDCWD, of_user));
    return files_.give(user_fd.get(), kOwnersDirectory);
}

Result<void> TraceFiles::remove_ended(const fs::path& directory, std::vector<ChannelFiles> channels) {
    TraceFiles ended(directory, std::move(channels), std::nullopt);
    ended.trace_fd_ = LEAT_TRY(open_directory(AT_FDCWD, directory));
    auto indexes = open_directory(ended.trace_fd_.get(), trace::kIndexDirectory);
    // Its owner may have put something else there: then there are no streams that anybody would find.
    const bool are_none =
        !indexes && (indexes.error().kind == ErrorKind::kNotFound || indexes.error().kind == ErrorKind::kRefused);
    if (!are_none) ended.index_fd_ = LEAT_TRY(std::move(indexes));
    // First, and it may fail: without their metadata, files are of no trace that anybody would clear.
    if (ended.index_fd_.is_open()) LEAT_TRY(ended.remove_streams());
    ended.remove_trace();
    if (has_metadata(ended.trace_fd_.get())) return refused("cannot remove {}", directory.string());
    return {};
}

void TraceFiles::remove_trace() {
    if (!trace_fd_.is_open()) return;
    // Also one that could not be given to its owner, or that a process left that was killed.
    ::unlinkat(trace_fd_.get(), trace::kSyncFileName, 0);
    sync_.reset();
    (void)remove_streams();
    ::unlinkat(trace_fd_.get(), trace::kMetadataFile, 0);
    ::unlinkat(trace_fd_.get(), kNewMetadataFile, 0);
    ::unlinkat(trace_fd_.get(), trace::kIndexDirectory, AT_REMOVEDIR);
    ::rmdir(trace_.c_str());
}

Result<void> TraceFiles::write_metadata(std::string_view unit) {
    return metadata_.append({std::as_bytes(std::span(unit))});
}

Result<void> TraceFiles::restore_metadata(std::string_view text) {
    const std::string_view first_part = text.substr(0, metadata_.size);
    if (!metadata_.begins_with(first_part)) return replace_metadata(text);
    metadata_.cut(first_part.size());
    return first_part.size() == text.size() ? Result<void>() : write_metadata(text.substr(first_part.size()));
}

Result<void> TraceFiles::replace_metadata(std::string_view text) {
    auto file = files_.create(trace_fd_.get(), kNewMetadataFile);
    auto replaced = file ? file->append({std::as_bytes(std::span(text))}) : tl::unexpected(file.error());
    if (replaced && ::renameat(trace_fd_.get(), kNewMetadataFile, trace_fd_.get(), trace::kMetadataFile) != 0)
        replaced = io_error(fmt::format("cannot replace the metadata of {}", trace_.string()));
    if (!replaced) {
        ::unlinkat(trace_fd_.get(), kNewMetadataFile, 0);
        return replaced;
    }
    metadata_ = *std::move(file);
    lost_.without_metadata = 0;
    return {};
}

StreamFiles::Place TraceFiles::place_of(consumer::StreamId id) const {
    const ChannelFiles& channel = channels_[id.channel];
    return {.files = &files_,
            .trace_directory = trace_fd_.get(),
            .index_directory = index_fd_.get(),
            .stream = trace::stream_name(channel.name, id.ring),
            .limits = channel.limits};
}

// What cannot be written because somebody has removed its directory, or that of the indexes, is not tried again. Nor is
// what has no place because the user that the files were given to has put a directory there: others do not wait for it.
Result<void> TraceFiles::write_packet(const consumer::Packet& packet) {
    auto written = write_to_stream(packet);
    if (!are_names_counted_) return written;
    const bool is_in_the_way = owner_ && !written && written.error().kind == ErrorKind::kRefused;
    if (written ? streams_.find(packet.stream)->second.is_removed() : is_in_the_way || is_directory_removed()) {
        lost_.in_removed_files += packet.events;
        return {};
    }
    if (written && has_no_metadata()) lost_.without_metadata += packet.events;
    return written;
}

Result<void> TraceFiles::write_to_stream(const consumer::Packet& packet) {
    auto found = streams_.find(packet.stream);
    if (found == streams_.end())
        found = streams_.emplace(packet.stream, LEAT_TRY(StreamFiles::create(place_of(packet.stream)))).first;
    return found->second.write(packet);
}

bool TraceFiles::is_directory_removed() const { return is_removed(trace_fd_.get()) || is_removed(index_fd_.get()); }

// Somebody may have put other metadata in place of ours, which readers find.
bool TraceFiles::has_no_metadata() const { return is_removed(metadata_.fd.get()) && !has_metadata(trace_fd_.get()); }

Result<void> TraceFiles::remove_streams() {
    auto indexes = LEAT_TRY(names_in(index_fd_.get()));
    streams_.clear();
    // The oldest of each stream first: if we are killed meanwhile, nothing is missing between those that are left.
    std::ranges::sort(indexes, {},
                      [](const std::string& name) { return std::pair(name.size(), std::string_view(name)); });
    for (const std::string& index : indexes) {
        if (!index.ends_with(trace::kIndexSuffix)) continue;
        const std::string name = index.substr(0, index.size() - trace::kIndexSuffix.size());
        const auto is_ours = [&](const ChannelFiles& channel) { return trace::is_stream_name(name, channel.name); };
        if (std::ranges::any_of(channels_, is_ours)) remove_stream_file(trace_fd_.get(), index_fd_.get(), name);
    }
    return {};
}

// On a full disk nothing is published, and followers wait until there is room.
void TraceFiles::cycle_done(std::uint64_t horizon) {
    if (sync_) (void)sync_->publish(horizon, metadata_.size);
}

}  // namespace leat::output
