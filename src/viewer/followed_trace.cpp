#include "viewer/followed_trace.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/file.hpp"
#include "viewer/trace_directories.hpp"
#include "wire/moving_lock.hpp"

namespace leat::viewer {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxPacketSize = 256U << 20U;
constexpr std::size_t kMaxEntrySize = 4096;

// As much of it as there is.
Result<std::vector<std::byte>> read_at(int fd, std::uint64_t offset, std::size_t size) {
    std::vector<std::byte> bytes(size);
    std::size_t filled = 0;
    while (filled < size) {
        const ssize_t count = ::pread(fd, bytes.data() + filled, size - filled, static_cast<off_t>(offset + filled));
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return io_error("cannot read");
        if (count == 0) break;
        filled += static_cast<std::size_t>(count);
    }
    bytes.resize(filled);
    return bytes;
}

std::uint64_t size_of_file(int fd) {
    struct stat status {};
    return ::fstat(fd, &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
}

}  // namespace

Result<std::unique_ptr<FollowedTrace>> FollowedTrace::open(const fs::path& directory, std::uint64_t trace_number,
                                                           LiveMerge& merge, Warn warn) {
    auto sync = LEAT_TRY(wire::SyncReader::open(directory));
    if (!sync || sync->is_writer_gone()) return nullptr;
    std::unique_ptr<FollowedTrace> trace(
        new FollowedTrace(directory, trace_number, *std::move(sync), merge, std::move(warn)));
    trace->metadata_ = LEAT_TRY(open_for_reading(directory / "metadata"));
    return trace;
}

Result<Progress> FollowedTrace::advance() {
    // In this order: what is written by the time that the writer is gone, or that the horizon was published, is seen by
    // what follows.
    is_writer_gone_ = sync_.is_writer_gone();
    state_ = LEAT_TRY(sync_.read());
    if (state_.generation == 0 && !is_writer_gone_) return Progress::kNothingNew;
    LEAT_TRY(add_new_files());
    bool is_new = false;
    for (File& file : files_) {
        auto advanced = advance(file);
        if (!advanced) {
            ++cut_short_;
            warn_(fmt::format("{}: {}; the rest of it is not shown", file.name, advanced.error().message));
            end(file);
        }
        is_new |= !advanced || *advanced;
    }
    std::erase_if(files_, [](const File& file) { return file.stream->is_finished(); });
    hold_back();
    merge_->refresh();
    if (is_new) return Progress::kNews;
    return is_writer_gone_ && files_.empty() ? Progress::kEnded : Progress::kNothingNew;
}

void FollowedTrace::hold_back() {
    if (is_writer_gone_) {
        if (limit_ != nullptr) limit_->end();
        return;
    }
    const auto horizon_ns = trace_.nanoseconds(state_.horizon);
    if (!horizon_ns || state_.horizon == 0) return;
    if (limit_ == nullptr) {
        limit_ = std::make_shared<LiveStream>(Stream{.trace_number = trace_.number()});
        merge_->add(limit_);
    }
    limit_->quiet_until(*horizon_ns);
}

Result<void> FollowedTrace::wait() {
    LEAT_TRY(sync_.wait_after(state_.generation));
    return {};
}

Result<void> FollowedTrace::add_new_files() {
    for (const fs::path& path : LEAT_TRY(find_stream_files(directory_))) {
        const std::string name = path.filename().string();
        if (known_.contains(name)) continue;
        auto data = open_for_reading(path);
        auto index = open_for_reading(directory_ / "index" / (name + ".idx"));
        // The index is made first; a file without one is none of a writer's.
        if (!data || !index) continue;
        known_.insert(name);
        std::error_code ignored;
        auto stream = std::make_shared<LiveStream>(
            Stream{.trace_number = trace_.number(), .name = fs::absolute(path, ignored).lexically_normal().string()});
        merge_->add(stream);
        files_.push_back({path.string(), *std::move(data), *std::move(index), std::move(stream)});
    }
    return {};
}

// Whether something came of it.
Result<bool> FollowedTrace::advance(File& file) {
    if (!file.stream->is_hungry()) return false;
    while (const auto entry = LEAT_TRY(next_entry(file))) {
        if (!entry->is_lost()) return feed(file, *entry);
        file.stream->note_lost_packet(entry->packet_seq_num);
        file.position += file.entry_size;
    }
    if (is_writer_gone_) {
        end(file);
        return true;
    }
    const auto horizon_ns = trace_.nanoseconds(state_.horizon);
    if (horizon_ns && state_.generation > 0) file.stream->quiet_until(*horizon_ns);
    return false;
}

// Nothing: it is not yet whole.
Result<std::optional<ctf::IndexEntry>> FollowedTrace::next_entry(File& file) {
    std::optional<ctf::IndexEntry> entry;
    if (file.entry_size == 0) {
        const auto header = LEAT_TRY(read_at(file.index.get(), 0, ctf::kIndexHeaderSize));
        if (header.size() < ctf::kIndexHeaderSize) return entry;
        file.entry_size = LEAT_TRY(ctf::parse_index_header(header));
        file.position = ctf::kIndexHeaderSize;
    }
    const auto bytes = LEAT_TRY(read_at(file.index.get(), file.position, std::min(file.entry_size, kMaxEntrySize)));
    if (bytes.size() == file.entry_size) entry = LEAT_TRY(ctf::parse_index_entry(bytes));
    return entry;
}

// False: the packet is not yet safe to read.
Result<bool> FollowedTrace::feed(File& file, const ctf::IndexEntry& entry) {
    const std::uint64_t size = entry.packet_size / 8;
    if (size == 0 || size > kMaxPacketSize || entry.offset > static_cast<std::uint64_t>(INT64_MAX) - size)
        return corrupt("its index has a packet of {} bytes at offset {}", size, entry.offset);
    if (!is_writer_gone_ && wire::is_write_locked(file.data.get(), entry.offset, size)) return false;
    // What is not locked is there: no memory for what an index only claims.
    const std::uint64_t file_size = size_of_file(file.data.get());
    if (entry.offset + size > file_size)
        return corrupt("packet at offset {} is cut short: {} bytes of {}", entry.offset,
                       file_size - std::min(entry.offset, file_size), size);
    auto packet = LEAT_TRY(read_at(file.data.get(), entry.offset, size));
    if (packet.size() < size) return corrupt("packet at offset {} was cut while it was read", entry.offset);
    // The index entry was there, and so is all metadata that the packet needs.
    LEAT_TRY(read_metadata());
    auto model = trace_.model();
    if (model && *model == nullptr) return corrupt("a packet came before any metadata");
    if (!model) return tl::unexpected(std::move(model).error());
    file.position += file.entry_size;
    auto fed = file.stream->feed(*model, std::move(packet), entry.offset);
    if (!fed) return tl::unexpected(std::move(fed).error());
    return true;
}

Result<void> FollowedTrace::read_metadata() {
    const std::uint64_t size = size_of_file(metadata_.get());
    if (size <= trace_.metadata_size()) return {};
    const auto bytes = LEAT_TRY(read_at(metadata_.get(), trace_.metadata_size(), size - trace_.metadata_size()));
    return trace_.append_metadata(bytes);
}

void FollowedTrace::end(File& file) {
    file.stream->end();
    const std::size_t lost = file.stream->identity().lost_packets.size();
    if (lost > 0) warn_(fmt::format("network lost {} packet{} of {}", lost, lost == 1 ? "" : "s", file.name));
}

}  // namespace leat::viewer
