#include "relay/store/data_stream.hpp"

#include <algorithm>

#include "base/log.hpp"

namespace leat::relay {

DataStream::DataStream(StreamParameters parameters, std::shared_ptr<SessionDirectory> directory,
                       std::shared_ptr<TraceChunk> chunk)
    : parameters_(std::move(parameters)),
      directory_(std::move(directory)),
      files_(std::in_place, parameters_.files, directory_, chunk, 0, parameters_.take_place),
      pairs_(parameters_.transport) {
    directory_->enter(*chunk, parameters_.files.trace_id);
}

DataStream::~DataStream() {
    const auto finished = finish();
    if (finished) return;
    log("stream {}: the index of its last packets is lost: {}", parameters_.id, finished.error().message);
    if (files_) files_->finish();
}

// A peer may announce any size: nothing is reserved for it, and only bytes that come take room.
Result<DataStream::Begun> DataStream::begin_packet(const wire::DataHeader& header) {
    const std::lock_guard lock(mutex_);
    if ((is_finished_ || !files_) && pairs_.is_past(header.net_seq_num)) {
        note_dropped(header.net_seq_num, "it comes too late");
        return Begun::kDropped;
    }
    if (is_finished_) return refused("stream {} is closed", parameters_.id);
    if (!files_) return refused("stream {} is out of every trace chunk", parameters_.id);
    if (arrival_.is_under_way()) return Begun::kLater;
    // Producers round up to pages.
    constexpr std::uint32_t kMaxPadding = 16U << 20;
    if (header.padding_size > kMaxPadding)
        return corrupt("packet {} wants {} bytes of padding", header.net_seq_num, header.padding_size);
    if (parameters_.files.index_minor && !pairs_.has_room_for_data(header.net_seq_num)) return Begun::kLater;
    LEAT_TRY(arrival_.begin(header, *files_));
    return Begun::kYes;
}

Result<std::optional<DataStream::Target>> DataStream::begin_write() {
    const std::lock_guard lock(mutex_);
    if (arrival_.is_under_way()) return arrival_.begin_write(*files_);
    // Its session has ended: no index will come for this packet.
    if (is_finished_ || pairs_.has_data_ended()) return refused("stream {} takes no data any more", parameters_.id);
    return std::nullopt;
}

Result<bool> DataStream::end_write(std::uint64_t written, Time now) {
    const std::lock_guard lock(mutex_);
    if (!arrival_.is_under_way()) return refused("stream {} takes no data any more", parameters_.id);
    const auto packet = LEAT_TRY(arrival_.end_write(written, *files_));
    if (packet) {
        last_data_ = packet->number;
        ++parameters_.traffic->packets;
        parameters_.traffic->bytes += packet->data.size;
        if (parameters_.files.index_minor)
            add_data(*packet, now);
        else
            note_stored_without_index(*packet);
    }
    // Also what waited for the write to end. For what does not fit now the packet need not wait: flush() does.
    const auto committed = commit(now);
    if (!committed && !is_disk_full(committed)) return tl::unexpected(committed.error());
    return packet.has_value();
}

void DataStream::drop_packet() {
    const std::lock_guard lock(mutex_);
    if (arrival_.is_under_way()) arrival_.drop(*files_);
}

Result<void> DataStream::store_packet(std::uint64_t number, UntrustedBytes bytes, Time now) {
    if (LEAT_TRY(begin_packet({.net_seq_num = number, .data_size = static_cast<std::uint32_t>(bytes.size())})) !=
        Begun::kYes)
        return refused("packet {}: there is no room for it now", number);
    const auto target = LEAT_TRY(begin_write());
    if (!target) return refused("packet {}: its chunk is over", number);
    const auto written = write_what_fits(target->file->data.get(), target->offset, bytes);
    if (!written || *written != bytes.size()) {
        drop_packet();
        if (!written) return tl::unexpected(written.error());
        return fail(ErrorKind::kDiskFull, "the disk is full: a packet is lost");
    }
    LEAT_TRY(end_write(*written, now));
    return {};
}

// Data that was given up, or comes again, goes; the stream goes on.
void DataStream::add_data(const Arrival::Complete& packet, Time now) {
    const auto added = pairs_.add_data(packet.number, packet.data, now);
    if (added) return;
    files_->find(packet.data.file_number)->truncate(packet.data.offset);
    note_dropped(packet.number, added.error().message);
}

void DataStream::note_dropped(std::uint64_t number, std::string_view why) {
    if (refused_packets_++ == 0)
        log("stream {}: packet {}: {}: its data is dropped; more are only counted", parameters_.id, number, why);
}

// Readers of such files go by the packets' own headers, so all that is complete may be read.
void DataStream::note_stored_without_index(const Arrival::Complete& packet) {
    StreamFile& file = *files_->find(packet.data.file_number);
    file.note_safe(packet.data.offset + packet.data.size);
    note_if_removed(file);
    files_->close_rolled();
    is_unflushed_ = true;
}

Result<bool> DataStream::add_index(const wire::SendIndex& index, Time now, bool is_data_silent) {
    const std::lock_guard lock(mutex_);
    if (is_finished_) return refused("stream {} is closed", parameters_.id);
    if (index.entry.packet_size % 8 != 0 || index.entry.content_size > index.entry.packet_size)
        return corrupt("index of packet {}: impossible sizes", index.net_seq_num);
    if (!pairs_.has_room_for_index(index.net_seq_num)) {
        if (is_data_silent) pairs_.give_up_oldest_data();
        // That makes room, or age does; but not on a full disk, where what is lost waits for its entry in the index.
        const auto committed = commit(now);
        if (!committed && !is_disk_full(committed)) return tl::unexpected(committed.error());
        if (!pairs_.has_room_for_index(index.net_seq_num)) return false;
    }
    LEAT_TRY(pairs_.add_index(index, now));
    ++parameters_.traffic->indexes;
    const auto committed = commit(now);
    if (!committed && !is_disk_full(committed)) return tl::unexpected(committed.error());
    return true;
}

void DataStream::add_beacon(const wire::SendIndex& beacon) {
    const std::lock_guard lock(mutex_);
    pending_beacon_ = beacon;
    ++parameters_.traffic->beacons;
    apply_beacon();
}

// A beacon speaks of what follows the packets that were sent before it: not before those are all here.
void DataStream::apply_beacon() {
    if (!pending_beacon_ || in_hand_) return;
    const std::uint64_t after = pending_beacon_->net_seq_num;
    if (!pairs_.is_past(after)) return;
    auto& beacon = next_view_.beacon;
    const ctf::IndexEntry entry = std::exchange(pending_beacon_, std::nullopt)->entry;
    // The full disk may have let a newer packet pass.
    if (entry.timestamp_end < next_view_.horizon.value_or(0)) return;
    beacon = {entry.timestamp_end, entry.stream_class_id};
    next_view_.horizon = beacon->timestamp;
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
    const std::uint64_t unlisted = pairs_.unlisted();
    in_hand_ = pairs_.take(now);
    parameters_.traffic->lost_packets += pairs_.unlisted() - unlisted;
    return in_hand_.has_value();
}

// Commits what is known by now, in the order of the numbers. What was taken from the table stays in hand until its
// entry is in a file: on a full disk, or while a packet that the chunk switch would have to move is being written,
// commit() stops and the next call goes on with the same packet.
Result<void> DataStream::commit(Time now) {
    while (in_hand_ || LEAT_TRY(take_in_hand(now))) {
        is_unflushed_ = true;
        if (in_hand_->index && is_rotation_due(in_hand_->index->packet_seq_num)) {
            if (arrival_.is_being_written()) return {};  // it goes on when the write is done
            LEAT_TRY(switch_chunk());
        }
        LEAT_TRY(commit(*in_hand_));
        const auto index = in_hand_->index;
        in_hand_.reset();
        if (index) LEAT_TRY(rotate_if_due(index->packet_seq_num + 1));
        apply_beacon();  // before the packet behind it, which is newer
    }
    const bool knows_last = last_ && last_->packet_seq_num != ctf::IndexEntry::kUnknown;
    LEAT_TRY(rotate_if_due(knows_last ? last_->packet_seq_num + 1 : 0));
    apply_beacon();
    return {};
}

Result<void> DataStream::commit(const PairingTable::Outcome& outcome) {
    StreamFile* const file = files_ ? LEAT_TRY(files_->for_entry(outcome.data)) : nullptr;
    const ctf::IndexEntry entry = entry_of(outcome);
    if (entry.is_lost()) {
        ++lost_packets_;
        ++parameters_.traffic->lost_packets;
        if (is_missing(outcome)) ++missing_packets_;
    }
    if (file == nullptr) return {};  // lost, and there is no place where that could be told
    file->append_entry(entry, entry.is_lost() ? 0 : outcome.data->offset + outcome.data->size);
    files_->set_current(*file);
    note_committed(entry);
    note_if_removed(*file);
    return {};
}

// Of a producer that is there, and does not know that its data connection is not. Whoever sends an index without data
// on connections that live wants it so, and a network loses datagrams: that costs nobody the stream.
bool DataStream::is_missing(const PairingTable::Outcome& outcome) const {
    return outcome.index && !outcome.data && pairs_.has_data_ended() && !pairs_.have_indexes_ended();
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

// A beacon spoke of what follows the packets before it: it is over with the next packet.
void DataStream::note_committed(const ctf::IndexEntry& entry) {
    last_ = entry;
    next_view_.horizon = std::max(next_view_.horizon.value_or(0), entry.timestamp_end);
    next_view_.beacon.reset();
    ++next_view_.packets;
    ++next_view_.version;
}

// Older files may have been rolled away, which is no news.
void DataStream::note_if_removed(const StreamFile& file) {
    if (file.number() + 1 != files_->next_number() || !file.is_removed()) return;
    ++parameters_.traffic->removed_packets;
    if (removed_packets_++ == 0)
        log("stream {}: somebody has removed its file of {}: what comes for that is lost", parameters_.id,
            parameters_.files.path);
}

Result<void> DataStream::flush(Time now) {
    const std::lock_guard lock(mutex_);
    if (is_finished_) return {};
    auto committed = commit(now);
    // What could be committed can be seen, whatever became of the rest.
    LEAT_TRY(flush_files());
    return committed;
}

// The entries are on disk before the view shows them, and a file is closed only when the view names a later one.
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
    StreamFile* const current = files_ ? files_->current() : nullptr;
    if (current != nullptr) {
        next_view_.place = files_->place();
        next_view_.current_file = current->number();
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

// Packets are committed in order, so data that still waits for its index lies in the current file or a later one. A
// peer that sends out of order may have data in a file that is closed by then: it counts as lost.
void DataStream::close_old_files() {
    if (!files_) return;
    std::vector<StoredData> waiting;
    if (in_hand_ && in_hand_->data) waiting.push_back(*in_hand_->data);
    if (arrival_.is_under_way()) waiting.push_back(arrival_.place());
    files_->close_unused(waiting);
}

Result<void> DataStream::rotate(std::shared_ptr<TraceChunk> chunk, std::uint64_t packet_seq_num, Time now) {
    const std::lock_guard lock(mutex_);
    if (is_finished_) return {};
    if (rotation_) return unsupported("stream {} is being rotated already", parameters_.id);
    // From now on, so that the chunk is not complete before the stream has come and left.
    if (chunk != nullptr) directory_->enter(*chunk, parameters_.files.trace_id);
    rotation_.emplace(std::move(chunk), packet_seq_num);
    is_unflushed_ = true;
    const auto committed = commit(now);
    return is_disk_full(committed) ? Result<void>() : committed;
}

bool DataStream::is_rotation_due(std::uint64_t next) const { return rotation_ && rotation_->is_due(next); }

// Everything before the position is committed: `next` is what follows. A write that goes on is waited for.
Result<void> DataStream::rotate_if_due(std::uint64_t next) {
    if (is_rotation_due(next) && !arrival_.is_being_written()) return switch_chunk();
    return {};
}

std::vector<ChunkSwitch::Move> DataStream::data_to_move() {
    std::vector<ChunkSwitch::Move> moves;
    if (in_hand_ && in_hand_->data) moves.push_back(ChunkSwitch::move_of(*in_hand_->data, in_hand_->data->size));
    for (StoredData* const data : pairs_.all_data()) moves.push_back(ChunkSwitch::move_of(*data, data->size));
    if (arrival_.is_under_way()) moves.push_back(ChunkSwitch::move_of(arrival_.place(), arrival_.received()));
    return moves;
}

// All that can fail is done before anything of the stream changes: with a full disk it stays, and tries again.
Result<void> DataStream::switch_chunk() {
    if (files_) LEAT_TRY(files_->flush());
    show();
    std::vector<ChunkSwitch::Move> moves = data_to_move();
    next_file_ = files_ ? files_->next_number() : next_file_;
    std::optional<FileSequence> next;
    if (rotation_->chunk() != nullptr) {
        next.emplace(parameters_.files, directory_, rotation_->chunk(), next_file_, parameters_.take_place);
        LEAT_TRY(ChunkSwitch::copy(moves, files_ ? &*files_ : nullptr, *next, parameters_.id));
    }
    // From here on nothing fails.
    ChunkSwitch::finish(moves);
    if (arrival_.is_under_way() && arrival_.place().file_number == StoredData::kNoFile) {
        note_dropped(arrival_.number(), "its chunk is over");
        arrival_.forget();
    }
    next_view_.current.reset();
    if (next) {
        note_former_place();
        next_view_.first_file = next_file_;
        next_view_.current_file.reset();
        next_file_ = next->next_number();
    }
    if (files_) {
        files_->finish();
        directory_->leave(files_->chunk(), parameters_.files.trace_id);
    }
    files_ = std::move(next);
    rotation_.reset();
    ++next_view_.version;
    is_unflushed_ = true;
    return {};
}

// Before it goes on in the next one.
void DataStream::note_former_place() {
    constexpr std::size_t kMost = 8;
    auto former = *next_view_.former;
    std::erase_if(former, [](const auto& left) { return left.place->are_gone(); });
    // Else nobody has anything to read there.
    if (next_view_.current_file) former.push_back({next_view_.place, next_file_});
    if (former.size() > kMost) former.erase(former.begin());
    next_view_.former = std::make_shared<const std::vector<StreamView::FormerPlace>>(std::move(former));
}

// What DATA_PENDING asks. "Stored" must survive our own death, so an entry in memory does not count. Without indexes
// nothing tells which packets there are: the last number that came has to do.
bool DataStream::is_stored(std::uint64_t number) const {
    if (is_finished_) return true;
    if (is_unflushed_ || in_hand_) return false;
    if (!parameters_.files.index_minor)
        return !arrival_.is_under_way() &&
               (number == wire::kNoPacket || (last_data_ && is_at_or_past(*last_data_, number)));
    return pairs_.is_past(number);
}

bool DataStream::has_stored(std::uint64_t number) const {
    const std::lock_guard lock(mutex_);
    return is_stored(number);
}

bool DataStream::should_finish() const {
    const std::lock_guard lock(mutex_);
    return !is_finished_ && close_after_ && !arrival_.is_being_written() && is_stored(*close_after_);
}

bool DataStream::waits_for_data() const {
    const std::lock_guard lock(mutex_);
    const bool has_indexes = parameters_.files.index_minor.has_value();
    // Without indexes, only CLOSE_STREAM tells how much there is. A producer that was cut off has not sent it: more may
    // come until its data connection ends as well.
    const bool was_cut_off = !close_after_ && pairs_.have_indexes_ended();
    if (!has_indexes && (was_cut_off || (close_after_ && !is_stored(*close_after_)))) return true;
    // What is being written must not lose its file; else a packet that no index will come for is not waited for.
    const bool may_index_come = !has_indexes || !pairs_.have_indexes_ended();
    return (arrival_.is_under_way() && may_index_come) || arrival_.is_being_written() || pairs_.waits_for_data();
}

void DataStream::end_data() {
    const std::lock_guard lock(mutex_);
    if (!arrival_.is_being_written()) arrival_.forget();
    pairs_.end_data();
}

void DataStream::end_indexes() {
    const std::lock_guard lock(mutex_);
    pairs_.end_indexes();
}

// kDiskFull leaves everything as it was, and is tried again. Other failures are told in the log, and the stream
// finishes: a disk that is broken does not get better by waiting.
Result<void> DataStream::finish() {
    const std::lock_guard lock(mutex_);
    if (is_finished_) return {};
    if (arrival_.is_being_written()) return fail(ErrorKind::kDiskFull, "a packet is just being written");
    // On a full disk that makes room for the index.
    if (files_) arrival_.drop(*files_);
    arrival_.forget();
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
        directory_->leave(files_->chunk(), parameters_.files.trace_id);
        next_file_ = files_->next_number();
        files_.reset();
    }
    if (rotation_ && rotation_->chunk() != nullptr) directory_->leave(*rotation_->chunk(), parameters_.files.trace_id);
    rotation_.reset();
    if (refused_packets_ > 1) log("stream {}: the data of {} packets was dropped", parameters_.id, refused_packets_);
    if (removed_packets_ != 0)
        log("stream {}: {} packets are lost, because somebody had removed their file", parameters_.id,
            removed_packets_);
    if (pairs_.unindexed() != 0)
        log("stream {}: it ended before the index of its last packets came ({}): they are not in the trace",
            parameters_.id, pairs_.unindexed());
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

std::uint64_t DataStream::missing_packets() const {
    const std::lock_guard lock(mutex_);
    return missing_packets_;
}

std::uint64_t DataStream::lost_packets() const {
    const std::lock_guard lock(mutex_);
    return lost_packets_;
}

// Numbers of files never come again: if all these are the same, none has been opened or closed meanwhile.
std::vector<Unsynced> DataStream::take_unsynced() {
    const std::lock_guard lock(mutex_);
    Named now{.next_file = next_file_};
    if (files_) now = {.next_file = files_->next_number(), .open = files_->numbers()};
    if (now == named_) return files_ ? files_->duplicates() : std::vector<Unsynced>();
    std::vector<Unsynced> all;
    all.push_back(directory_->unsynced());
    if (all.front().file.is_open()) named_ = std::move(now);
    return all;
}

}  // namespace leat::relay
