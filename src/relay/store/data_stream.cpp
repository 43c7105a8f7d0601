#include "relay/store/data_stream.hpp"

#include <algorithm>
#include <vector>

#include "relay/log.hpp"

namespace leat::relay {
namespace {

// Of data that is nowhere any more.
constexpr std::uint64_t kNoFile = ~std::uint64_t{0};

// As the tracer counts: one behind another, however it wraps.
bool is_at_or_past(std::uint64_t number, std::uint64_t position) {
    return static_cast<std::int64_t>(number - position) >= 0;
}

}  // namespace

DataStream::DataStream(StreamParameters parameters, std::shared_ptr<SessionDirectory> directory,
                       std::shared_ptr<TraceChunk> chunk)
    : parameters_(std::move(parameters)),
      directory_(std::move(directory)),
      files_(std::in_place, parameters_.files, directory_, chunk, 0),
      pairs_(parameters_.transport) {
    directory_->enter(*chunk);
}

DataStream::~DataStream() {
    const auto finished = finish();
    if (finished) return;
    log("stream {}: the index of its last packets is lost: {}", parameters_.id, finished.error().message);
    if (files_) files_->finish();
}

Result<bool> DataStream::begin_packet(const wire::DataHeader& header) {
    const std::lock_guard lock(mutex_);
    if (is_finished_) return refused("stream {} is closed", parameters_.id);
    if (!files_) return refused("stream {} is out of every trace chunk", parameters_.id);
    if (incoming_) return false;
    // Producers round up to pages.
    constexpr std::uint32_t kMaxPadding = 16U << 20;
    if (header.padding_size > kMaxPadding)
        return corrupt("packet {} wants {} bytes of padding", header.net_seq_num, header.padding_size);
    if (parameters_.files.index_minor && !pairs_.has_room_for_data(header.net_seq_num)) return false;
    StreamFile* const file = LEAT_TRY(files_->for_packet(header.data_size));
    incoming_ = Incoming{.number = header.net_seq_num,
                         .file_number = file->number(),
                         .offset = file->size(),
                         .data_size = header.data_size,
                         .size = std::uint64_t{header.data_size} + header.padding_size};
    return true;
}

Result<DataStream::Target> DataStream::begin_write() {
    const std::lock_guard lock(mutex_);
    // Its session has ended, or its chunk has: no index will come for this packet.
    if (!incoming_) return refused("stream {} takes no data any more", parameters_.id);
    incoming_->is_being_written = true;
    const std::uint64_t missing =
        incoming_->received < incoming_->data_size ? incoming_->data_size - incoming_->received : 0;
    return Target{files_->find(incoming_->file_number)->open(), incoming_->offset + incoming_->received, missing};
}

Result<bool> DataStream::end_write(std::uint64_t written, Time now) {
    const std::lock_guard lock(mutex_);
    if (!incoming_) return refused("stream {} takes no data any more", parameters_.id);
    incoming_->is_being_written = false;
    incoming_->received += written;
    files_->find(incoming_->file_number)->note_written(incoming_->offset + incoming_->received);
    const bool is_complete = incoming_->received >= incoming_->data_size;
    if (is_complete) {
        LEAT_TRY(pad_packet());
        const Incoming packet = *incoming_;
        incoming_.reset();
        last_data_ = packet.number;
        if (parameters_.files.index_minor)
            add_data(packet, now);
        else
            note_stored_without_index(packet);
    }
    // Also what waited for the write to end. For what does not fit now the packet need not wait: flush() does.
    const auto committed = commit(now);
    if (!committed && !is_disk_full(committed)) return tl::unexpected(committed.error());
    return is_complete;
}

void DataStream::drop_packet() {
    const std::lock_guard lock(mutex_);
    if (!incoming_) return;
    files_->find(incoming_->file_number)->truncate(incoming_->offset);
    incoming_.reset();
}

Result<void> DataStream::store_packet(std::uint64_t number, UntrustedBytes bytes, Time now) {
    if (!LEAT_TRY(begin_packet({.net_seq_num = number, .data_size = static_cast<std::uint32_t>(bytes.size())})))
        return refused("packet {}: there is no room for it now", number);
    const Target target = LEAT_TRY(begin_write());
    const auto written = write_what_fits(target.file->data.get(), target.offset, bytes);
    if (!written || *written != bytes.size()) {
        drop_packet();
        if (!written) return tl::unexpected(written.error());
        return fail(ErrorKind::kDiskFull, "the disk is full: a packet is lost");
    }
    LEAT_TRY(end_write(*written, now));
    return {};
}

// Data that was given up, or comes again, goes; the stream goes on.
void DataStream::add_data(const Incoming& packet, Time now) {
    const auto added = pairs_.add_data(packet.number, {packet.file_number, packet.offset, packet.size}, now);
    if (added) return;
    files_->find(packet.file_number)->truncate(packet.offset);
    if (refused_packets_++ == 0)
        log("stream {}: {}: its data is dropped; more are only counted", parameters_.id, added.error().message);
}

void DataStream::note_stored_without_index(const Incoming& packet) {
    files_->find(packet.file_number)->note_safe(packet.offset + packet.size);
    is_unflushed_ = true;
}

Result<void> DataStream::pad_packet() {
    if (incoming_->received >= incoming_->size) return {};
    LEAT_TRY(files_->find(incoming_->file_number)->extend(incoming_->offset + incoming_->size));
    incoming_->received = incoming_->size;
    return {};
}

Result<bool> DataStream::add_index(const wire::SendIndex& index, Time now) {
    const std::lock_guard lock(mutex_);
    if (is_finished_) return refused("stream {} is closed", parameters_.id);
    if (index.entry.packet_size % 8 != 0 || index.entry.content_size > index.entry.packet_size)
        return corrupt("index of packet {}: impossible sizes", index.net_seq_num);
    if (!pairs_.has_room_for_index(index.net_seq_num)) return false;
    LEAT_TRY(pairs_.add_index(index, now));
    const auto committed = commit(now);
    if (!committed && !is_disk_full(committed)) return tl::unexpected(committed.error());
    return true;
}

void DataStream::add_beacon(const wire::SendIndex& beacon) {
    const std::lock_guard lock(mutex_);
    pending_beacon_ = beacon;
    apply_beacon();
}

// A beacon speaks of what follows the packets that were sent before it: not before those are all here.
void DataStream::apply_beacon() {
    if (!pending_beacon_ || in_hand_) return;
    const std::uint64_t after = pending_beacon_->net_seq_num;
    if (after != wire::kNoPacket && !pairs_.is_past(after)) return;
    auto& beacon = next_view_.beacon;
    const ctf::IndexEntry& entry = pending_beacon_->entry;
    if (!beacon || entry.timestamp_end > beacon->timestamp) beacon = {entry.timestamp_end, entry.stream_class_id};
    next_view_.horizon = std::max(next_view_.horizon.value_or(0), beacon->timestamp);
    pending_beacon_.reset();
    ++next_view_.version;
    is_unflushed_ = true;
}

void DataStream::close_after(std::uint64_t last_number) {
    const std::lock_guard lock(mutex_);
    close_after_ = last_number;
}

// Whether there is anything to commit. A peer that claims to have lost much fills the disk, not our memory.
Result<bool> DataStream::take_in_hand(Time now) {
    constexpr std::size_t kMuch = 1U << 20;
    if (files_ && files_->unflushed() >= kMuch) LEAT_TRY(flush_files());
    in_hand_ = pairs_.take(now);
    return in_hand_.has_value();
}

Result<void> DataStream::commit(Time now) {
    while (in_hand_ || LEAT_TRY(take_in_hand(now))) {
        is_unflushed_ = true;
        if (in_hand_->index && is_rotation_due(in_hand_->index->packet_seq_num)) {
            if (is_being_written()) return {};  // it goes on when the write is done
            LEAT_TRY(switch_chunk());
        }
        LEAT_TRY(commit(*in_hand_));
        const auto index = in_hand_->index;
        in_hand_.reset();
        if (index) LEAT_TRY(rotate_if_due(index->packet_seq_num + 1));
    }
    const bool knows_last = last_ && last_->packet_seq_num != ctf::IndexEntry::kUnknown;
    LEAT_TRY(rotate_if_due(knows_last ? last_->packet_seq_num + 1 : 0));
    apply_beacon();
    return {};
}

Result<void> DataStream::commit(const PairingTable::Outcome& outcome) {
    StreamFile* const file = LEAT_TRY(file_of(outcome));
    const ctf::IndexEntry entry = entry_of(outcome);
    if (entry.is_lost()) ++lost_packets_;
    if (file == nullptr) return {};  // lost, and there is no place where that could be told
    file->append_entry(entry, entry.is_lost() ? 0 : outcome.data->offset + outcome.data->size);
    current_file_ = file->number();
    note_committed(entry);
    return {};
}

// Where its entry goes: to its data, or if there is none, behind the last entry.
Result<StreamFile*> DataStream::file_of(const PairingTable::Outcome& outcome) {
    if (!files_) return nullptr;
    StreamFile* const file = outcome.data ? files_->find(outcome.data->file_number) : nullptr;
    if (file != nullptr) return file;
    if (current_file_ && files_->find(*current_file_) != nullptr) return files_->find(*current_file_);
    if (!files_->empty()) return &files_->oldest();
    return files_->for_packet(0);
}

// Of a packet without data, what its index says of it; of one without an index, what can be inferred from the last.
ctf::IndexEntry DataStream::entry_of(const PairingTable::Outcome& outcome) {
    bool has_data = outcome.data && files_ && files_->find(outcome.data->file_number) != nullptr;
    if (!outcome.index) {
        ctf::IndexEntry entry = last_.value_or(ctf::IndexEntry{});
        entry.offset = ctf::IndexEntry::kLostOffset;
        // Not 0: babeltrace2 aborts if the last entry of an index has offset -1 and no size; others it finds wrong, and
        // then reads the packets without the index.
        entry.packet_size = 8 * (outcome.data ? outcome.data->size : 1);
        entry.content_size = 0;
        entry.timestamp_begin = entry.timestamp_end;
        if (last_ && last_->packet_seq_num != ctf::IndexEntry::kUnknown) ++entry.packet_seq_num;
        return entry;
    }
    ctf::IndexEntry entry = *outcome.index;
    // Whoever believed such an index would read another packet's bytes.
    if (has_data && entry.packet_size / 8 != outcome.data->size) {
        if (!std::exchange(has_wrong_sizes_, true))
            log("stream {}: packet {} has {} bytes, and {} by its index: it is lost, as are more of that kind",
                parameters_.id, outcome.number, outcome.data->size, entry.packet_size / 8);
        has_data = false;
    }
    entry.offset = has_data ? outcome.data->offset : ctf::IndexEntry::kLostOffset;
    return entry;
}

void DataStream::note_committed(const ctf::IndexEntry& entry) {
    last_ = entry;
    next_view_.horizon = std::max(next_view_.horizon.value_or(0), entry.timestamp_end);
    next_view_.beacon.reset();
    ++next_view_.packets;
    ++next_view_.version;
}

Result<void> DataStream::flush(Time now) {
    const std::lock_guard lock(mutex_);
    if (is_finished_) return {};
    auto committed = commit(now);
    // What could be committed can be seen, whatever became of the rest.
    LEAT_TRY(flush_files());
    return committed;
}

Result<void> DataStream::flush_files() {
    if (!is_unflushed_) return {};
    if (files_) LEAT_TRY(files_->flush());
    is_unflushed_ = in_hand_.has_value();
    show();
    close_old_files();
    return {};
}

// What is flushed is what can be seen.
void DataStream::show() {
    StreamFile* const current = files_ && current_file_ ? files_->find(*current_file_) : nullptr;
    if (current != nullptr) {
        next_view_.place = files_->place();
        next_view_.current_file = current_file_;
        next_view_.entries = current->flushed_entries();
        next_view_.current = current->open();
    } else {
        next_view_.current.reset();
    }
    next_view_.is_finished = is_finished_;
    const std::lock_guard lock(view_mutex_);
    view_ = next_view_;
}

StreamView DataStream::view() const {
    const std::lock_guard lock(view_mutex_);
    return view_;
}

// Files that nothing waits for any more, and the newest is another.
void DataStream::close_old_files() {
    if (!files_ || !current_file_) return;
    std::uint64_t oldest = *current_file_;
    if (in_hand_ && in_hand_->data) oldest = std::min(oldest, in_hand_->data->file_number);
    if (incoming_) oldest = std::min(oldest, incoming_->file_number);
    files_->close_before(oldest);
}

Result<void> DataStream::rotate(std::shared_ptr<TraceChunk> chunk, std::uint64_t packet_seq_num, Time now) {
    const std::lock_guard lock(mutex_);
    if (is_finished_) return {};
    if (rotation_) return unsupported("stream {} is being rotated already", parameters_.id);
    rotation_ = PendingRotation{std::move(chunk), packet_seq_num};
    is_unflushed_ = true;
    const auto committed = commit(now);
    return is_disk_full(committed) ? Result<void>() : committed;
}

bool DataStream::is_rotation_due(std::uint64_t next) const {
    return rotation_ && is_at_or_past(next, rotation_->packet_seq_num);
}

// Everything before the position is committed: `next` is what follows. A write that goes on is waited for.
Result<void> DataStream::rotate_if_due(std::uint64_t next) {
    if (is_rotation_due(next) && !is_being_written()) return switch_chunk();
    return {};
}

// A packet, or the part of it that has come, that goes with the stream into its next chunk.
struct DataStream::Move {
    StoredData* data;
    std::uint64_t count;  // bytes
    std::optional<StoredData> to{};
};

// What has come already and belongs behind the position is moved: the connection for data may be ahead of the other.
// It is copied first, and only when all of it is there the stream leaves its old files: with a full disk it stays, and
// tries again.
Result<void> DataStream::switch_chunk() {
    if (files_) LEAT_TRY(files_->flush());
    show();
    std::vector<Move> moves;
    if (in_hand_ && in_hand_->data) moves.push_back({&*in_hand_->data, in_hand_->data->size});
    for (StoredData* const data : pairs_.all_data()) moves.push_back({data, data->size});
    StoredData arriving{};
    if (incoming_) {
        arriving = {incoming_->file_number, incoming_->offset, incoming_->size};
        moves.push_back({&arriving, incoming_->received});
    }
    next_file_ = files_ ? files_->next_number() : next_file_;
    std::optional<FileSequence> next;
    if (rotation_->chunk != nullptr) {
        next.emplace(parameters_.files, directory_, rotation_->chunk, next_file_);
        LEAT_TRY(copy_to(*next, moves));
    }
    // From here on nothing fails.
    for (const Move& move : moves) *move.data = move.to.value_or(StoredData{kNoFile, 0, move.data->size});
    if (incoming_ && arriving.file_number == kNoFile) incoming_.reset();
    if (incoming_) {
        incoming_->file_number = arriving.file_number;
        incoming_->offset = arriving.offset;
    }
    current_file_.reset();
    next_view_.current.reset();
    if (next) {
        next_view_.first_file = next_file_;
        next_view_.current_file.reset();
        next_file_ = next->next_number();
        directory_->enter(next->chunk());
    }
    if (files_) {
        files_->finish();
        directory_->leave(files_->chunk());
    }
    files_ = std::move(next);
    rotation_.reset();
    ++next_view_.version;
    is_unflushed_ = true;
    return {};
}

// Fails when the disk is full, and leaves nothing behind then. What cannot be copied for another reason is lost.
Result<void> DataStream::copy_to(FileSequence& next, std::vector<Move>& moves) {
    for (Move& move : moves) {
        const auto to = copy_to(next, *move.data, move.count);
        if (to) {
            move.to = *to;
        } else if (is_disk_full(to)) {
            next.discard();
            return tl::unexpected(to.error());
        } else {
            log("stream {}: a packet was lost at a rotation: {}", parameters_.id, to.error().message);
        }
    }
    return {};
}

Result<StoredData> DataStream::copy_to(FileSequence& next, const StoredData& data, std::uint64_t count) {
    constexpr std::uint64_t kPiece = 256U << 10;
    StreamFile* const from = files_ ? files_->find(data.file_number) : nullptr;
    if (from == nullptr) return not_found("its file is gone");
    StreamFile& to = *LEAT_TRY(next.for_packet(data.size));
    const std::uint64_t begin = to.size();
    std::vector<std::byte> bytes(std::min(count, kPiece));
    for (std::uint64_t done = 0; done < count;) {
        const auto piece = std::span(bytes).first(std::min<std::uint64_t>(bytes.size(), count - done));
        LEAT_TRY(from->read(data.offset + done, piece));
        if (LEAT_TRY(to.write(begin + done, piece)) != piece.size())
            return fail(ErrorKind::kDiskFull, "the disk is full");
        done += piece.size();
    }
    return StoredData{to.number(), begin, data.size};
}

bool DataStream::is_stored(std::uint64_t number) const {
    if (is_finished_) return true;
    if (is_unflushed_ || in_hand_) return false;
    if (!parameters_.files.index_minor)
        return !incoming_ && (number == wire::kNoPacket || (last_data_ && is_at_or_past(*last_data_, number)));
    return pairs_.is_past(number) || (pairs_.empty() && number == wire::kNoPacket);
}

bool DataStream::has_stored(std::uint64_t number) const {
    const std::lock_guard lock(mutex_);
    return is_stored(number);
}

bool DataStream::should_finish() const {
    const std::lock_guard lock(mutex_);
    return !is_finished_ && close_after_ && !is_being_written() && is_stored(*close_after_);
}

bool DataStream::waits_for_data() const {
    const std::lock_guard lock(mutex_);
    const bool has_indexes = parameters_.files.index_minor.has_value();
    if (!has_indexes && close_after_ && !is_stored(*close_after_)) return true;
    // What is being written must not lose its file; else a packet that no index will come for is not waited for.
    const bool may_index_come = !has_indexes || !pairs_.have_indexes_ended();
    return (incoming_ && may_index_come) || is_being_written() || pairs_.waits_for_data();
}

void DataStream::end_data() {
    const std::lock_guard lock(mutex_);
    if (!is_being_written()) incoming_.reset();
    pairs_.end_data();
}

void DataStream::end_indexes() {
    const std::lock_guard lock(mutex_);
    pairs_.end_indexes();
}

Result<void> DataStream::finish() {
    const std::lock_guard lock(mutex_);
    if (is_finished_) return {};
    if (is_being_written()) return fail(ErrorKind::kDiskFull, "a packet is just being written");
    // On a full disk that makes room for the index.
    if (incoming_ && files_) files_->find(incoming_->file_number)->truncate(incoming_->offset);
    incoming_.reset();
    pairs_.end_data();
    pairs_.end_indexes();
    auto committed = commit(Time::max());
    if (is_disk_full(committed)) return committed;
    if (!committed) log("stream {}: {}", parameters_.id, committed.error().message);
    if (files_) {
        auto flushed = files_->flush();
        if (is_disk_full(flushed)) return flushed;
        if (!flushed) log("stream {}: {}", parameters_.id, flushed.error().message);
        show();
        files_->finish();
        directory_->leave(files_->chunk());
        files_.reset();
    }
    rotation_.reset();
    if (refused_packets_ > 1) log("stream {}: the data of {} packets was dropped", parameters_.id, refused_packets_);
    if (pairs_.unlisted() != 0)
        log("stream {}: {} packets are missing, {} of them without an entry in the index", parameters_.id,
            lost_packets_ + pairs_.unlisted(), pairs_.unlisted());
    is_finished_ = true;
    is_unflushed_ = false;
    ++next_view_.version;
    show();
    return {};
}

bool DataStream::is_finished() const {
    const std::lock_guard lock(mutex_);
    return is_finished_;
}

std::uint64_t DataStream::lost_packets() const {
    const std::lock_guard lock(mutex_);
    return lost_packets_;
}

std::vector<UniqueFd> DataStream::duplicate_files() const {
    const std::lock_guard lock(mutex_);
    return files_ ? files_->duplicates() : std::vector<UniqueFd>();
}

}  // namespace leat::relay
