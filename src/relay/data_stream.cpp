#include "relay/data_stream.hpp"

#include <algorithm>
#include <vector>

#include "relay/log.hpp"

namespace leat::relay {
namespace {

constexpr std::uint64_t kNoNumber = ~std::uint64_t{0};

// As the tracer counts: one behind another, however it wraps.
bool is_at_or_past(std::uint64_t number, std::uint64_t position) {
    return static_cast<std::int64_t>(number - position) >= 0;
}

}  // namespace

DataStream::DataStream(StreamParameters parameters, std::shared_ptr<SessionDirectory> directory,
                       std::shared_ptr<TraceChunk> chunk)
    : parameters_(std::move(parameters)),
      directory_(std::move(directory)),
      chunk_(std::move(chunk)),
      readable_chunk_(chunk_),
      pairs_(parameters_.transport) {
    directory_->enter(*chunk_);
}

DataStream::~DataStream() { finish(); }

std::string DataStream::file_name(std::uint64_t number) const {
    if (!is_limited()) return parameters_.channel_name;
    std::uint64_t i = number - first_of_chunk_;
    if (parameters_.tracefile_count != 0) i %= parameters_.tracefile_count;
    return fmt::format("{}_{}", parameters_.channel_name, i);
}

Result<void> DataStream::open_next_file() {
    if (chunk_ == nullptr) return refused("stream {} is out of every trace chunk", parameters_.handle);
    const ConfinedDirectory trace = LEAT_TRY(directory_->make_path(*chunk_, parameters_.path));
    const bool is_again =
        parameters_.tracefile_count != 0 && next_file_ - first_of_chunk_ >= parameters_.tracefile_count;
    // The oldest packets go now: the newest must be safe by then, should we be killed.
    if (is_again)
        for (StreamFile& file : files_) (void)LEAT_TRY(file.flush());
    StreamFile file = LEAT_TRY(StreamFile::create(trace, {.name = file_name(next_file_),
                                                          .number = next_file_,
                                                          .has_index = parameters_.has_indexes,
                                                          .index_minor = parameters_.index_minor,
                                                          // Not under the eyes of a viewer.
                                                          .guard = directory_->guard(),
                                                          .is_reused = is_again && directory_->viewers == 0}));
    if (!files_.empty()) files_.back().seal();
    files_.push_back(std::move(file));
    ++next_file_;
    safe_end_ = 0;
    return {};
}

Result<StreamFile*> DataStream::file_for(std::uint64_t packet_size) {
    const bool has_file = !files_.empty() && files_.back().number() >= first_of_chunk_;
    const bool is_full = has_file && is_limited() && files_.back().size() != 0 &&
                         files_.back().size() + packet_size > parameters_.tracefile_size;
    if (!has_file || is_full) LEAT_TRY(open_next_file());
    return &files_.back();
}

StreamFile* DataStream::file(std::uint64_t number) {
    const auto found = std::ranges::find(files_, number, &StreamFile::number);
    return found == files_.end() ? nullptr : &*found;
}

Result<void> DataStream::begin_packet(const wire::DataHeader& header) {
    if (is_finished_) return refused("stream {} is closed", parameters_.handle);
    // Padding is cheap to promise and dear to write. Producers round up to pages.
    constexpr std::uint32_t kMaxPadding = 16U << 20;
    if (header.padding_size > kMaxPadding)
        return corrupt("packet {} wants {} bytes of padding", header.net_seq_num, header.padding_size);
    StreamFile* const file = LEAT_TRY(file_for(header.data_size));
    incoming_ = Incoming{.number = header.net_seq_num,
                         .file_number = file->number(),
                         .offset = file->size(),
                         .data_size = header.data_size,
                         .size = std::uint64_t{header.data_size} + header.padding_size};
    return {};
}

Result<std::size_t> DataStream::write(UntrustedBytes piece) {
    const Target target = begin_write();
    auto written = write_what_fits(target.fd, target.offset, piece);
    end_write(written.value_or(0));
    return written;
}

DataStream::Target DataStream::begin_write() {
    incoming_->is_being_written = true;
    return {file(incoming_->file_number)->fd(), incoming_->offset + incoming_->received};
}

void DataStream::end_write(std::size_t written) {
    incoming_->is_being_written = false;
    incoming_->received += written;
    file(incoming_->file_number)->note_written(incoming_->offset + incoming_->received);
}

void DataStream::drop_packet() {
    file(incoming_->file_number)->truncate(incoming_->offset);
    incoming_.reset();
}

std::uint64_t DataStream::missing() const {
    return incoming_ && incoming_->received < incoming_->data_size ? incoming_->data_size - incoming_->received : 0;
}

Result<Disk> DataStream::end_packet(Time now) {
    if (incoming_) {
        if (LEAT_TRY(pad_packet()) == Disk::kFull) return Disk::kFull;
        const Incoming packet = *incoming_;
        incoming_.reset();
        last_data_ = packet.number;
        if (parameters_.has_indexes)
            add_data(packet, now);
        else
            note_stored_without_index(packet);
    }
    LEAT_TRY(commit(now));
    return Disk::kDone;
}

// Data that was given up, or comes again, goes; the stream goes on.
void DataStream::add_data(const Incoming& packet, Time now) {
    const auto added = pairs_.add_data(packet.number, {packet.file_number, packet.offset, packet.size}, now);
    if (added) return;
    file(packet.file_number)->truncate(packet.offset);
    if (refused_packets_++ == 0)
        log("stream {}: {}: its data is dropped; more are only counted", parameters_.handle, added.error().message);
}

void DataStream::note_stored_without_index(const Incoming& packet) {
    safe_end_ = packet.offset + packet.size;
    file(packet.file_number)->note_safe(safe_end_);
}

Result<Disk> DataStream::pad_packet() {
    StreamFile* const target = file(incoming_->file_number);
    while (incoming_->received < incoming_->size) {
        const std::uint64_t at = incoming_->offset + incoming_->received;
        const std::size_t written = LEAT_TRY(target->write_zeros(at, incoming_->size - incoming_->received));
        if (written == 0) return Disk::kFull;
        incoming_->received += written;
    }
    return Disk::kDone;
}

Result<void> DataStream::add_index(const wire::SendIndex& index, Time now) {
    if (is_finished_) return refused("stream {} is closed", parameters_.handle);
    if (index.packet_size % 8 != 0 || index.content_size > index.packet_size)
        return corrupt("index of packet {}: impossible sizes", index.net_seq_num);
    return pairs_.add_index(index, now);
}

void DataStream::add_beacon(const wire::SendIndex& beacon) {
    pending_beacon_ = beacon;
    apply_beacon();
}

// A beacon speaks of what follows the packets that were sent before it: not before those are all here.
void DataStream::apply_beacon() {
    if (!pending_beacon_ || in_hand_) return;
    const std::uint64_t after = pending_beacon_->net_seq_num;
    if (after != wire::kNoPacket && !pairs_.is_past(after)) return;
    if (!beacon_ || pending_beacon_->timestamp_end > beacon_->timestamp)
        beacon_ = {pending_beacon_->timestamp_end, pending_beacon_->stream_class_id};
    horizon_ = std::max(horizon_.value_or(0), beacon_->timestamp);
    pending_beacon_.reset();
    ++changes_;
}

// Whether there is anything to commit. A peer that claims to have lost much fills the disk, not our memory.
Result<bool> DataStream::take_in_hand(Time now) {
    constexpr std::size_t kMuch = 1U << 20;
    std::size_t unflushed = 0;
    for (const StreamFile& file : files_) unflushed += file.unflushed();
    if (unflushed >= kMuch && LEAT_TRY(flush()) == Disk::kFull) return false;
    in_hand_ = pairs_.take(now);
    return in_hand_.has_value();
}

Result<void> DataStream::commit(Time now) {
    while (in_hand_ || LEAT_TRY(take_in_hand(now))) {
        if (in_hand_->index && is_rotation_due(in_hand_->index->packet_seq_num)) {
            if (is_being_written()) return {};  // it goes on when the write is done
            switch_chunk();
        }
        LEAT_TRY(commit(*in_hand_));
        const auto index = in_hand_->index;
        in_hand_.reset();
        if (index) rotate_if_due(index->packet_seq_num + 1);
    }
    if (last_) rotate_if_due(last_->packet_seq_num + 1);
    apply_beacon();
    return {};
}

Result<void> DataStream::commit(const PairingTable::Outcome& outcome) {
    const ctf::IndexEntry entry = entry_of(outcome);
    if (outcome.is_lost() && files_.empty()) LEAT_TRY(file_for(0));
    StreamFile* const target = outcome.is_lost() ? &files_.back() : file(outcome.data->file_number);
    if (target == nullptr) return refused("packet {} is in no file", outcome.number);
    const bool is_newest = target == &files_.back();
    const std::uint64_t end = outcome.is_lost() ? safe_end_ : outcome.data->offset + outcome.data->size;
    target->append_entry(entry, is_newest ? end : target->size());
    if (is_newest) safe_end_ = std::max(safe_end_, end);
    if (outcome.is_lost()) ++lost_packets_;
    note_committed(entry);
    return {};
}

Result<Disk> DataStream::flush() {
    for (StreamFile& file : files_)
        if (!LEAT_TRY(file.flush())) return Disk::kFull;
    has_unflushed_ = false;
    drop_old_files();
    return Disk::kDone;
}

// Of a packet without data, what its index says of it; of one without an index, what can be inferred from the last.
ctf::IndexEntry DataStream::entry_of(const PairingTable::Outcome& outcome) const {
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
    const wire::SendIndex& index = *outcome.index;
    return {.offset = outcome.data ? outcome.data->offset : ctf::IndexEntry::kLostOffset,
            .packet_size = index.packet_size,
            .content_size = index.content_size,
            .timestamp_begin = index.timestamp_begin,
            .timestamp_end = index.timestamp_end,
            .events_discarded = index.events_discarded,
            .stream_class_id = index.stream_class_id,
            .stream_instance_id = index.stream_instance_id,
            .packet_seq_num = index.packet_seq_num};
}

void DataStream::note_committed(const ctf::IndexEntry& entry) {
    last_ = entry;
    horizon_ = std::max(horizon_.value_or(0), entry.timestamp_end);
    beacon_.reset();
    ++committed_packets_;
    has_unflushed_ = true;
    ++changes_;
}

// Files that nothing waits for any more, and the newest is another.
void DataStream::drop_old_files() {
    if (files_.size() < 2) return;
    std::uint64_t oldest = incoming_ ? incoming_->file_number : files_.back().number();
    for (const StoredData* data : pairs_.all_data()) oldest = std::min(oldest, data->file_number);
    while (files_.front().number() < oldest) files_.pop_front();
}

Result<void> DataStream::rotate(std::shared_ptr<TraceChunk> chunk, std::uint64_t packet_seq_num) {
    if (rotation_) return unsupported("stream {} is being rotated already", parameters_.handle);
    rotation_ = PendingRotation{std::move(chunk), packet_seq_num};
    const bool knows_last = last_ && last_->packet_seq_num != ctf::IndexEntry::kUnknown;
    rotate_if_due(knows_last ? last_->packet_seq_num + 1 : 0);
    return {};
}

bool DataStream::is_rotation_due(std::uint64_t next) const {
    return rotation_ && is_at_or_past(next, rotation_->packet_seq_num);
}

// Everything before the position is committed: `next` is what follows. A write that goes on is waited for.
void DataStream::rotate_if_due(std::uint64_t next) {
    if (is_rotation_due(next) && !is_being_written()) switch_chunk();
}

// What has come already and belongs behind the position is moved: the connection for data may be ahead of the other.
void DataStream::switch_chunk() {
    const std::shared_ptr<TraceChunk> left = chunk_;
    flush_or_log();
    ++changes_;
    const std::uint64_t old_end = safe_end_;
    const std::size_t old_files = files_.size();
    chunk_ = rotation_->chunk;
    rotation_.reset();
    if (chunk_ != nullptr) {
        directory_->enter(*chunk_);
        readable_chunk_ = chunk_;
    }
    first_of_chunk_ = chunk_ != nullptr ? next_file_ : first_of_chunk_;
    std::vector<std::pair<StoredData*, std::uint64_t>> moving;
    if (in_hand_ && in_hand_->data) moving.emplace_back(&*in_hand_->data, in_hand_->data->size);
    for (StoredData* data : pairs_.all_data()) moving.emplace_back(data, data->size);
    StoredData arriving{};
    if (incoming_) {
        arriving = {incoming_->file_number, incoming_->offset, incoming_->size};
        moving.emplace_back(&arriving, incoming_->received);
    }
    for (const auto& [data, count] : moving) {
        auto moved = move(*data, count);
        if (!moved) log("stream {}: a packet was lost at a rotation: {}", parameters_.handle, moved.error().message);
    }
    if (incoming_) {
        incoming_->file_number = arriving.file_number;
        incoming_->offset = arriving.offset;
    }
    if (old_files != 0) files_[old_files - 1].seal();
    if (old_files != 0 && old_end < files_[old_files - 1].size()) files_[old_files - 1].truncate(old_end);
    files_.erase(files_.begin(), files_.begin() + static_cast<std::ptrdiff_t>(old_files));
    if (left != nullptr) directory_->leave(*left);
}

Result<void> DataStream::move(StoredData& data, std::uint64_t count) {
    constexpr std::uint64_t kPiece = 256U << 10;
    const std::uint64_t from_number = data.file_number;
    LEAT_TRY(file_for(data.size));
    StreamFile* const from = file(from_number);
    StreamFile& to = files_.back();
    if (from == nullptr) return not_found("its file is gone");
    const std::uint64_t begin = to.size();
    std::vector<std::byte> bytes(std::min(count, kPiece));
    for (std::uint64_t done = 0; done < count;) {
        const auto piece = std::span(bytes).first(std::min<std::uint64_t>(bytes.size(), count - done));
        LEAT_TRY(from->read(data.offset + done, piece));
        if (LEAT_TRY(to.write(begin + done, piece)) != piece.size()) return fail(ErrorKind::kIo, "the disk is full");
        done += piece.size();
    }
    data.file_number = to.number();
    data.offset = begin;
    return {};
}

bool DataStream::has_stored(std::uint64_t number) const {
    if (is_finished_) return true;
    if (!parameters_.has_indexes)
        return !incoming_ && (number == wire::kNoPacket || (last_data_ && is_at_or_past(*last_data_, number)));
    return !in_hand_ && (pairs_.is_past(number) || (pairs_.empty() && number == wire::kNoPacket));
}

bool DataStream::waits_for_data() const {
    if (!parameters_.has_indexes && close_after_ && !has_stored(*close_after_)) return true;
    // What is being written must not lose its file; else a packet that no index will come for is not waited for.
    const bool may_index_come = !parameters_.has_indexes || !pairs_.have_indexes_ended();
    return (incoming_ && may_index_come) || is_being_written() || pairs_.waits_for_data();
}

void DataStream::end_data() {
    incoming_.reset();
    pairs_.end_data();
}

void DataStream::finish() {
    if (is_finished_) return;
    end_data();
    end_indexes();
    const auto committed = commit(Time::max());
    if (!committed) log("stream {}: {}", parameters_.handle, committed.error().message);
    flush_or_log();
    if (refused_packets_ > 1)
        log("stream {}: the data of {} packets was dropped", parameters_.handle, refused_packets_);
    if (pairs_.unlisted() != 0)
        log("stream {}: {} packets are missing, {} of them without an entry in the index", parameters_.handle,
            lost_packets_ + pairs_.unlisted(), pairs_.unlisted());
    cut_uncommitted();
    files_.clear();
    is_finished_ = true;
    ++changes_;
    if (chunk_ != nullptr) directory_->leave(*chunk_);
    chunk_.reset();
}

// Where there is no later.
void DataStream::flush_or_log() {
    const auto flushed = flush();
    if (!flushed) log("stream {}: {}", parameters_.handle, flushed.error().message);
    if (flushed && *flushed == Disk::kFull)
        log("stream {}: the disk is full: the index of its last packets is lost", parameters_.handle);
}

void DataStream::cut_uncommitted() {
    if (files_.empty()) return;
    files_.back().seal();
    if (files_.back().size() > safe_end_) files_.back().truncate(safe_end_);
}

std::optional<std::uint64_t> DataStream::newest_file() const {
    return next_file_ > first_of_chunk_ ? std::optional(next_file_ - 1) : std::nullopt;
}

std::optional<std::uint64_t> DataStream::oldest_file() const {
    const auto newest = newest_file();
    if (!newest) return std::nullopt;
    const std::uint64_t count = parameters_.tracefile_count != 0 ? parameters_.tracefile_count : kNoNumber;
    return *newest - first_of_chunk_ < count ? first_of_chunk_ : *newest - count + 1;
}

Result<DataStream::Reading> DataStream::open_file(std::uint64_t number) const {
    const ConfinedDirectory trace = LEAT_TRY(directory_->make_path(*readable_chunk_, parameters_.path));
    const std::string name = file_name(number);
    const ConfinedDirectory indexes = LEAT_TRY(trace.open("index"));
    Reading reading;
    reading.data = LEAT_TRY(trace.open_file(name));
    reading.index = LEAT_TRY(indexes.open_file(name + ".idx"));
    return reading;
}

}  // namespace leat::relay
