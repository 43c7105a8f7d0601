#include "capture/block_output.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/file.hpp"
#include "ctf/record/packet_header.hpp"
#include "trace/stream_paths.hpp"

namespace leat::capture {
namespace {

constexpr mode_t kDirectoryMode = 0750;
constexpr mode_t kFileMode = 0640;

iovec part_of(const std::byte* begin, std::uint64_t size) {
    return {const_cast<std::byte*>(begin), size};  // pwritev() only reads it
}

// It is there and empty afterwards. Says whether it was not there before.
Result<bool> make_empty_directory(const std::filesystem::path& directory) {
    if (::mkdir(directory.c_str(), kDirectoryMode) == 0) return true;
    if (errno != EEXIST) return io_error(fmt::format("cannot make {}", directory.string()));
    std::error_code error;
    if (std::filesystem::is_directory(directory, error) && std::filesystem::is_empty(directory, error)) return false;
    return refused("{} is there and not empty: give a new directory", directory.string());
}

}  // namespace

std::array<iovec, 2> Block::parts(int& count) const {
    std::array<iovec, 2> parts{};
    count = 0;
    if (written < head.size())
        parts[static_cast<std::size_t>(count++)] = part_of(head.data() + written, head.size() - written);
    const std::uint64_t of_rest = written - std::min<std::uint64_t>(written, head.size());
    if (of_rest < rest.size())
        parts[static_cast<std::size_t>(count++)] = part_of(rest.data() + of_rest, rest.size() - of_rest);
    return parts;
}

Result<std::unique_ptr<BlockOutput>> BlockOutput::create(const std::filesystem::path& directory,
                                                         std::string_view channel, std::uint32_t cpu_rings,
                                                         std::span<const std::uint32_t> cpus, std::uint64_t max_size) {
    const bool is_new = LEAT_TRY(make_empty_directory(directory));
    std::unique_ptr<BlockOutput> output(new BlockOutput(directory, channel, max_size));
    output->has_made_directory_ = is_new;
    output->directory_fd_ = UniqueFd(::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    auto opened = output->directory_fd_.is_open() ? output->open_file(trace::kMetadataFile)
                                                  : io_error(fmt::format("cannot open {}", directory.string()));
    for (const std::uint32_t cpu : cpus) {
        if (!opened || cpu >= cpu_rings) break;
        opened = output->file_of({.channel = 0, .ring = cpu});
    }
    if (opened) return output;
    output->remove_if_unused();
    return tl::unexpected(std::move(opened).error());
}

Result<std::size_t> BlockOutput::open_file(const std::string& name) {
    constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
    File file{.name = name, .fd = UniqueFd(::openat(directory_fd_.get(), name.c_str(), kFlags, kFileMode))};
    if (!file.fd.is_open()) return io_error(fmt::format("cannot create {}", path_of(file)));
    file.has_name = !is_removed(file.fd.get());
    files_.push_back(std::move(file));
    return files_.size() - 1;
}

Result<std::size_t> BlockOutput::file_of(consumer::StreamId stream) {
    const auto known = file_numbers_.find(stream);
    if (known != file_numbers_.end()) return known->second;
    const std::size_t file = LEAT_TRY(open_file(trace::stream_name(channel_, stream.ring)));
    file_numbers_.emplace(stream, file);
    kept_.add(2 * ctf::kPacketHeaderSize);
    return file;
}

// The last packets of a stream, without records, always fit: they have the count of what was skipped, and a stream that
// has no packet yet takes two for it.
bool BlockOutput::has_room_for(std::uint64_t size, bool has_records) const {
    // There may be one stream more.
    return has_records ? size + 2 * ctf::kPacketHeaderSize <= limit_.room() : limit_.has_room_at_the_end(size);
}

void BlockOutput::add(Block block) {
    File& file = files_[block.file];
    block.number = next_number_;
    block.offset = file.size;
    // First: there may be no memory for it.
    const Block& added = blocks_.emplace_back(std::move(block));
    ++next_number_;
    file.size += added.size();
    bytes_ += added.size();
    limit_.use(added.size());
    events_ += added.events;
    file.events += added.events;
}

Result<void> BlockOutput::write_metadata(std::string_view unit) {
    if (error_) return tl::unexpected(*error_);
    if (!has_room_for(unit.size(), true)) {
        is_full_ = true;
        return refused("the capture has reached its size");
    }
    Block block{.file = 0, .is_metadata = true};
    block.head.resize(unit.size());
    std::memcpy(block.head.data(), unit.data(), unit.size());
    add(std::move(block));
    return {};
}

Result<void> BlockOutput::write_packet(const consumer::Packet& packet) {
    if (error_) return tl::unexpected(*error_);
    if (!has_room_for(ctf::kPacketHeaderSize + packet.records.size(), !packet.records.empty())) {
        is_full_ = true;
        return refused("the capture has reached its size");
    }
    auto file = file_of(packet.stream);
    if (!file) {
        fail(file.error());
        return tl::unexpected(std::move(file).error());
    }
    Block block{.file = *file,
                .rest = packet.other_records(),
                .stream = packet.stream,
                .sequence_number = packet.header.packet_seq_num,
                .events = packet.events};
    append_head(block.head, packet);
    add(std::move(block));
    return {};
}

std::uint64_t BlockOutput::stored(consumer::StreamId stream) const {
    const auto known = next_stored_.find(stream);
    return known == next_stored_.end() ? 0 : known->second;
}

bool BlockOutput::is_delivered() const {
    if (!error_) return blocks_.empty();
    return std::ranges::none_of(blocks_, [](const Block& block) { return block.state == Block::State::kOut; });
}

Block* BlockOutput::hand_out() {
    if (error_) return nullptr;
    for (Block& block : blocks_) {
        if (block.state == Block::State::kWaiting) {
            block.state = Block::State::kOut;
            return &block;
        }
        // Who is killed now leaves packets that can be read.
        if (block.is_metadata && block.state == Block::State::kOut) return nullptr;
    }
    return nullptr;
}

void BlockOutput::take_back() {
    for (Block& block : blocks_)
        if (block.state == Block::State::kOut) block.state = Block::State::kWaiting;
}

bool BlockOutput::written(std::uint64_t number, std::int64_t result) {
    const auto found = std::ranges::find(blocks_, number, &Block::number);
    if (found == blocks_.end() || found->state != Block::State::kOut) return false;
    found->state = Block::State::kWaiting;
    // ECANCELED: the thread that has submitted it to an io_uring has ended.
    if (result == -EINTR || result == -EAGAIN || result == -ECANCELED) return true;
    if (result < 0) {
        errno = static_cast<int>(-result);
        fail(io_error(fmt::format("cannot write {}", path_of(files_[found->file]))).value());
        return true;
    }
    if (static_cast<std::uint64_t>(result) > found->size() - found->written) {
        fail(corrupt("more bytes of {} were written than there are", path_of(files_[found->file])).value());
        return true;
    }
    found->written += static_cast<std::uint64_t>(result);
    if (found->written != found->size()) return true;
    found->state = Block::State::kDone;
    note_done(*found);
    return true;
}

// A stream is stored up to its first block that is not done; a file has no gap up to its own.
void BlockOutput::note_done(const Block& done) {
    for (const Block& block : blocks_) {
        if (block.file != done.file || block.is_metadata) continue;
        if (block.state != Block::State::kDone) break;
        next_stored_[block.stream] = block.sequence_number + 1;
    }
    while (!blocks_.empty() && blocks_.front().state == Block::State::kDone) {
        files_[blocks_.front().file].stored = blocks_.front().offset + blocks_.front().size();
        blocks_.pop_front();
    }
}

void BlockOutput::fail(Error error) {
    if (!error_) error_ = std::move(error);
}

void BlockOutput::fail_without_memory() noexcept {
    // (A text that short needs none.)
    if (!error_) error_ = Error{ErrorKind::kIo, "out of memory"};
}

// Of what was taken, only that remains which is whole and has nothing in front that is missing.
void BlockOutput::give_up_the_rest() {
    std::vector<bool> has_gap(files_.size());
    bool has_metadata_gap = false;
    for (const Block& block : blocks_) {
        const bool is_done = block.state == Block::State::kDone;
        if (block.is_metadata && !is_done) has_metadata_gap = true;
        if (!is_done || has_metadata_gap) has_gap[block.file] = true;
        if (!has_gap[block.file]) {
            files_[block.file].stored = block.offset + block.size();
            continue;
        }
        lost_ += block.events;
        events_ -= block.events;
        files_[block.file].events -= block.events;
        bytes_ -= block.size();
    }
    blocks_.clear();
}

// What somebody has removed is not stored, and without metadata nothing is.
void BlockOutput::note_removed() {
    const auto is_gone = [](const File& file) {
        return file.fd.is_open() && file.has_name && file.size != 0 && is_removed(file.fd.get());
    };
    const bool has_metadata = files_.empty() || !is_gone(files_.front());
    for (File& file : files_) {
        if (has_metadata && !is_gone(file)) continue;
        has_removed_files_ = true;
        lost_ += file.events;
        events_ -= file.events;
        bytes_ -= error_ ? file.stored : file.size;
        file.events = 0;
    }
}

void BlockOutput::close() {
    if (error_) give_up_the_rest();
    note_removed();
    for (File& file : files_) {
        if (!file.fd.is_open()) continue;
        if (error_ && ::ftruncate(file.fd.get(), static_cast<off_t>(file.stored)) != 0) file.stored = 1;
        const bool is_empty = error_ ? file.stored == 0 : file.size == 0;
        file.fd = {};
        if (is_empty) ::unlinkat(directory_fd_.get(), file.name.c_str(), 0);
    }
    directory_fd_ = {};
}

void BlockOutput::remove_if_unused() {
    blocks_.clear();
    for (const File& file : files_) ::unlinkat(directory_fd_.get(), file.name.c_str(), 0);
    files_.clear();
    if (has_made_directory_) ::rmdir(directory_.c_str());
}

}  // namespace leat::capture
