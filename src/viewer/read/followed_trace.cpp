#include "viewer/read/followed_trace.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/file.hpp"
#include "ctf/metadata/metadata_stream.hpp"
#include "trace/moving_lock.hpp"
#include "trace/stream_paths.hpp"
#include "trace/trace_directories.hpp"

namespace leat::viewer {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxPacketSize = 256U << 20U;

}  // namespace

Result<FollowedTrace::Opened> FollowedTrace::open(const fs::path& directory, std::uint64_t trace_number,
                                                  LiveMerge& merge, Warn warn, bool has_begun_since) {
    UniqueFd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!fd.is_open() && errno == ENOENT) return Opened{};
    if (!fd.is_open()) return io_error("cannot open the directory");
    const fs::path place = fmt::format("/proc/self/fd/{}", fd.get());
    // The writer may end, and remove the sync file, or both files, between any two of our steps.
    auto sync = trace::SyncReader::open(place);
    std::error_code ignored;
    if (!sync && !fs::exists(place / trace::kSyncFileName, ignored)) sync = std::optional<trace::SyncReader>();
    auto metadata = open_for_reading(place / trace::kMetadataFile);
    if (!metadata && !fs::exists(place / trace::kMetadataFile, ignored)) return Opened{};
    if (!metadata) metadata = open_for_reading(place / trace::kMetadataFile);  // it has come just now
    if (!sync) return tl::unexpected(std::move(sync).error());
    if (!has_begun_since && (!*sync || (*sync)->is_writer_gone()))
        return Opened{.trace = nullptr, .finished = FileIdentity::of(fd.get())};
    std::unique_ptr<FollowedTrace> trace(new FollowedTrace(directory, std::move(fd), trace_number, *std::move(sync),
                                                           merge, std::move(warn), has_begun_since));
    trace->metadata_ = LEAT_TRY(std::move(metadata));
    return Opened{.trace = std::move(trace), .finished = {}};
}

FollowedTrace::~FollowedTrace() {
    for (const UnknownFile& unknown : unknown_files_) unknown.stream->end();
    for (const FollowedStream& stream : streams_) stream.stream->end();
    if (limit_ != nullptr) limit_->end();
    merge_->refresh();
}

Result<Progress> FollowedTrace::advance() {
    // Keep this order. Everything that was written before the writer ended, or before the horizon was published, is
    // seen by the steps that follow.
    is_writer_gone_ = !sync_ || sync_->is_writer_gone();
    if (sync_) state_ = LEAT_TRY(sync_->read());
    // By its clock, others are held back as long as they must be, and no longer. What is wrong with it is told of with
    // the packets.
    const bool is_expected = state_.generation == 0 && state_.horizon > 0;  // they may be being written
    if (is_expected || (trace_.metadata_size() == 0 && state_.metadata_size > 0)) (void)read_metadata();
    if (state_.generation == 0 && !is_writer_gone_) {
        // It may be the next chunk of a trace, and bring events that are older than the last ones of the chunk before.
        hold_back();
        merge_->refresh();
        return Progress::kNothingNew;
    }
    LEAT_TRY(find_all_files());
    warn_of_streams_without_beginning();
    bool is_new = false;
    for (FollowedStream& stream : streams_) {
        auto advanced = advance(stream);
        if (!advanced) {
            ++cut_short_;
            warn_(fmt::format("{}: {}; the rest of it is not shown", stream.name, advanced.error().message));
            end(stream);
        }
        is_new |= !advanced || *advanced;
    }
    hold_back();
    merge_->refresh();
    if (is_new) return Progress::kNews;
    return is_over() ? Progress::kEnded : Progress::kNothingNew;
}

bool FollowedTrace::is_over() const {
    return is_writer_gone_ && unknown_files_.empty() &&
           std::ranges::all_of(streams_, [](const auto& stream) { return stream.stream->is_finished(); });
}

void FollowedTrace::hold_back() {
    if (is_writer_gone_) {
        if (limit_ != nullptr) limit_->end();
        return;
    }
    const auto horizon_ns = trace_.nanoseconds(state_.horizon);
    if (!horizon_ns || state_.horizon == 0) return;
    if (limit_ == nullptr) {
        limit_ = std::make_shared<LiveStream>(StreamIdentity{.trace_number = trace_.number()});
        merge_->add(limit_);
    }
    limit_->quiet_until(*horizon_ns);
}

Result<void> FollowedTrace::wait() {
    if (sync_) LEAT_TRY(sync_->wait_after(state_.generation));
    return {};
}

// Files are placed before the streams are read. Whoever sees the first packet of the next file then finds all of the
// file before it. All of them must be there at one moment, or one that was replaced between our looks is missing among
// those that came later:
//
//     writer       c_1: 5       c_2: 6        c_0: 7        c_1: 8
//     we           open c_0 (4)     stopped for a while           open c_1 (8), c_2 (6)       where is 7?
Result<void> FollowedTrace::find_all_files() {
    constexpr int kMostLooks = 16;  // a writer may be faster than we are for ever
    for (int look = 0; look < kMostLooks; ++look) {
        if (auto added = add_new_files(); !added && !may_come_later(added.error())) return added;
        place_files();
        if (std::ranges::none_of(files_, [](const auto& file) { return file.second->is_replaced(); })) break;
    }
    return {};
}

Result<void> FollowedTrace::add_new_files() {
    for (const fs::path& path : LEAT_TRY(trace::find_stream_files(place_))) {
        const std::string name = path.filename().string();
        const auto known = files_.find(name);
        if (known != files_.end() && !known->second->is_replaced()) continue;
        auto opened = FollowedFile::open(path, directory_ / name);
        if (!opened) note_unreadable(name, opened.error());
        if (!opened || *opened == nullptr) continue;
        const std::shared_ptr<FollowedFile> file = *std::move(opened);
        files_.insert_or_assign(name, file);
        std::error_code ignored;
        auto stream = std::make_shared<LiveStream>(
            StreamIdentity{.trace_number = trace_.number(),
                           .name = fs::absolute(directory_ / name, ignored).lexically_normal().string()});
        merge_->add(stream);
        unknown_files_.push_back({file, std::move(stream)});
    }
    return {};
}

// As long as there may be descriptors for it later, it is tried again in silence.
bool FollowedTrace::may_come_later(const Error& error) const {
    return error.kind == ErrorKind::kDiskFull && !is_writer_gone_;
}

void FollowedTrace::note_unreadable(const std::string& name, const Error& error) {
    if (may_come_later(error) || !unreadable_.insert(name).second) return;
    ++cut_short_;
    warn_(fmt::format("{}: {}; it is not shown", (directory_ / name).string(), error.message));
}

// Finds out which streams the new files belong to.
void FollowedTrace::place_files() {
    std::erase_if(unknown_files_, [this](const UnknownFile& unknown) {
        const auto placed = place(unknown);
        if (placed ? !*placed : may_come_later(placed.error())) {
            keep_quiet(*unknown.stream);
            return false;
        }
        if (placed) return true;
        ++cut_short_;
        warn_(fmt::format("{}: {}; it is not shown", unknown.file->name(), placed.error().message));
        unknown.stream->end();
        return true;
    });
}

// Returns false if it is not known yet.
Result<bool> FollowedTrace::place(const UnknownFile& unknown) {
    const auto entry = LEAT_TRY(unknown.file->telling_entry());
    if (!entry && !is_writer_gone_ && !unknown.file->is_replaced()) return false;
    // If data were replaced, the packet numbers have a gap. It is told when the next file is read.
    if (entry && LEAT_TRY(unknown.file->open_data()))
        add_to_stream(unknown, *entry);
    else
        unknown.stream->end();
    return true;
}

void FollowedTrace::add_to_stream(const UnknownFile& unknown, const ctf::IndexEntry& entry) {
    std::optional<Key> key;
    if (entry.stream_instance_id != ctf::IndexEntry::kUnknown && entry.packet_seq_num != ctf::IndexEntry::kUnknown)
        key.emplace(entry.stream_class_id, entry.stream_instance_id);
    const auto known = key ? stream_by_key_.find(*key) : stream_by_key_.end();
    if (known == stream_by_key_.end()) {
        FollowedStream& stream = streams_.emplace_back(FollowedStream{unknown.stream, key, unknown.file->name()});
        stream.files.push_back({unknown.file, entry.packet_seq_num});
        if (key) stream_by_key_.emplace(*key, &stream);
        return;
    }
    unknown.stream->end();
    FollowedStream& stream = *known->second;
    if (stream.stream->is_finished()) return;
    // Readers have gone on without it: time would go back.
    if (entry.packet_seq_num < stream.next_packet) return;
    const auto first = stream.files.begin() + (stream.has_begun ? 1 : 0);
    const auto place =
        std::ranges::upper_bound(first, stream.files.end(), entry.packet_seq_num, {}, &File::first_packet);
    stream.files.insert(place, {unknown.file, entry.packet_seq_num});
}

// Warns of a stream that began while we were busy and has already replaced its first files. Nobody expects the
// beginning of streams that existed before we came. A rolled stream begins with file 0, in each trace chunk.
void FollowedTrace::warn_of_streams_without_beginning() {
    for (const FollowedStream& stream : streams_) {
        if (!has_looked_ || stream.has_begun || stream.files.size() < 2) continue;
        const std::string& name = stream.files.front().file->name();
        if (stream.files.front().first_packet == 0 || name.ends_with("_0")) continue;
        warn_(fmt::format("{}: the files of its stream before this one were replaced before they were read", name));
    }
    has_looked_ = true;
}

void FollowedTrace::keep_quiet(LiveStream& stream) {
    // Nothing more of this trace is shown. The stream is told of when it gets a packet.
    if (!trace_.model()) return stream.quiet_until(INT64_MAX);
    const auto horizon_ns = trace_.nanoseconds(state_.horizon);
    if (horizon_ns && state_.generation > 0) stream.quiet_until(*horizon_ns);
}

// Returns whether there was progress.
Result<bool> FollowedTrace::advance(FollowedStream& stream) {
    if (!stream.stream->is_hungry()) return false;
    while (true) {
        FollowedFile& file = *stream.files.front().file;
        stream.has_begun = true;
        stream.name = file.name();
        const auto entry = LEAT_TRY(file.entry());
        if (entry && !entry->is_lost()) return feed(stream, file, *entry);
        if (entry) {
            stream.stream->note_lost_packet(entry->packet_seq_num);
            file.skip_entry();
            continue;
        }
        if (stream.files.size() == 1) break;
        // Files are replaced in their order. So files between this one and the next are gone only if this one is.
        if (file.is_replaced()) stream.stream->note_missed_files();
        file.close();
        stream.files.pop_front();
    }
    if (is_writer_gone_ || (!stream.key && stream.files.front().file->is_replaced())) {
        end(stream);
        return true;
    }
    // It would hold back the streams of other traces, if nobody can tell its times.
    LEAT_TRY(trace_.model());
    keep_quiet(*stream.stream);
    return false;
}

// Returns false if the packet is not safe to read yet.
Result<bool> FollowedTrace::feed(FollowedStream& stream, FollowedFile& file, const ctf::IndexEntry& entry) {
    const std::uint64_t size = entry.packet_size / 8;
    if (size == 0 || size > kMaxPacketSize || entry.offset > static_cast<std::uint64_t>(INT64_MAX) - size)
        return corrupt("its index has a packet of {} bytes at offset {}", size, entry.offset);
    if (!is_writer_gone_ && trace::is_write_locked(file.data(), entry.offset, size)) return false;
    // Bytes that are not locked exist. No memory is allocated for bytes that only an index claims.
    const std::uint64_t file_size = size_of_file(file.data());
    if (entry.offset + size > file_size)
        return corrupt("packet at offset {} is cut short: {} bytes of {}", entry.offset,
                       file_size - std::min(entry.offset, file_size), size);
    auto packet = LEAT_TRY(read_at(file.data(), entry.offset, size));
    if (packet.size() < size) return corrupt("packet at offset {} was cut while it was read", entry.offset);
    // The index entry exists, so all metadata that the packet needs exists too.
    LEAT_TRY(read_metadata());
    auto model = trace_.model();
    if (model && *model == nullptr) return corrupt("a packet came before any metadata");
    if (!model) return tl::unexpected(std::move(model).error());
    if (const auto failure = trace_.take_failure()) {
        ++cut_short_;
        warn_(fmt::format("{}: metadata: {}; what is declared there or later is not shown", directory_.string(),
                          failure->message));
    }
    file.skip_entry();
    if (entry.packet_seq_num != ctf::IndexEntry::kUnknown) stream.next_packet = entry.packet_seq_num + 1;
    auto fed = stream.stream->feed(*model, std::move(packet), entry.offset);
    if (!fed) return tl::unexpected(std::move(fed).error());
    return true;
}

// A new file has all bytes where the one before had them, but for the clock's offset: docs/formats/sync-file.md. Events
// keep the offset that we began with, or time might go back.
void FollowedTrace::take_new_metadata_file() {
    const fs::path path = place_ / trace::kMetadataFile;
    const auto named = FileIdentity::of(path);
    if (!named || named == FileIdentity::of(metadata_.get())) return;
    if (auto opened = open_for_reading(path)) metadata_ = *std::move(opened);
}

Result<void> FollowedTrace::read_metadata() {
    take_new_metadata_file();
    const std::uint64_t size = size_of_file(metadata_.get());
    if (size <= trace_.metadata_size()) return {};
    if (size > ctf::kMaxMetadataSize)
        return refused("metadata has {} bytes; the limit is {}", size, ctf::kMaxMetadataSize);
    const auto bytes = LEAT_TRY(read_at(metadata_.get(), trace_.metadata_size(), size - trace_.metadata_size()));
    return trace_.append_metadata(bytes);
}

void FollowedTrace::end(FollowedStream& stream) {
    stream.stream->end();
    for (const File& file : stream.files) file.file->close();
    stream.files.clear();
    const std::size_t lost = stream.stream->identity().lost_packets.size();
    if (lost > 0) warn_(fmt::format("network lost {} packet{} of {}", lost, lost == 1 ? "" : "s", stream.name));
}

}  // namespace leat::viewer
