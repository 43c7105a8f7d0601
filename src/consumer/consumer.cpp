#include "consumer/consumer.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "ring/clock.hpp"

namespace leat::consumer {
namespace {

// Between a writer's reading of the clock and ours: TSCs of two CPUs may differ by a fraction of this.
constexpr std::uint64_t kLiveMargin = 1'000;  // ns
// A stream that nobody waits for is told about this often at most.
constexpr std::uint64_t kBeaconPeriod = 100'000'000;  // ns

// Pages of a ring that exist before a writer needs them. The bell rings when half of them is used, which costs a writer
// a wake-up: so there are more of them each time, in proportion to what was used; but only as many as take no longer
// than a drain may.
constexpr std::uint64_t kTouchedForUsed = 4;
constexpr std::uint64_t kTouchedAtLeast = 256U << 10;
constexpr std::uint64_t kTouchedAtMost = 1U << 20;
// For all CPUs, before it is known which of them will run traced programs.
constexpr std::uint64_t kTouchedAtFirst = 64U << 10;

}  // namespace

Consumer::Consumer(const ring::RingSet& rings, const ctf::RecordWalker& walker, Output& output,
                   const Parameters& parameters)
    : rings_(&rings),
      walker_(&walker),
      output_(&output),
      parameters_(parameters),
      cpu_rings_(rings.geometry().cpu_rings) {
    for (std::uint32_t ring = 0; ring < cpu_rings_; ++ring) {
        Stream stream{.reader = rings.reader(ring), .ring = ring};
        // The first packet begins when the ring was made: the first record's gap counts from there.
        if (const auto published = stream.reader.published()) {
            stream.last_record = horizon_ = published->last_timestamp;
            stream.record_count = published->record_count;
        }
        stream.timestamp = stream.told = stream.last_record;
        stream.reader.touch_ahead(kTouchedAtFirst);
        arm(stream);
        streams_.push_back(std::move(stream));
    }
}

// A ring of a thread begins empty and at time 0; its stream, where readers of the others are.
void Consumer::add_used_thread_rings() {
    const std::size_t in_use = cpu_rings_ + rings_->thread_rings_used();
    while (streams_.size() < in_use) {
        const auto ring = static_cast<std::uint32_t>(streams_.size());
        streams_.push_back({.reader = rings_->reader(ring), .ring = ring, .timestamp = horizon_, .told = horizon_});
        streams_.back().reader.touch_ahead(kTouchedAtFirst);
    }
}

Result<void> Consumer::announce_cpu_rings() {
    std::vector<std::uint64_t> rings;
    for (std::uint32_t ring = 0; ring < cpu_rings_; ++ring) rings.push_back(ring);
    LEAT_TRY(announce(rings));
    for (const std::uint64_t ring : rings) LEAT_TRY(write_empty(streams_[ring]));
    is_followed_ = true;
    return {};
}

// [RFC-live-reading], "Synchronization of streams". Every ring is looked at, then the clock is read, then every ring is
// looked at again: one that did not move meanwhile has nothing to come that is older than the clock, but for records
// whose stores still wait in their CPU (see late_records()). The same with rings that are claimed in between.
Result<void> Consumer::drain() {
    add_used_thread_rings();
    sample();
    now_ = parameters_.clock != nullptr ? ring::clock_now(*parameters_.clock) : 0;
    add_used_thread_rings();
    wants_drain_ = false;
    for (Stream& stream : streams_) {
        stream.is_quiet = stream.is_quarantined || !stream.reader.has_moved();
        wants_drain_ |= !stream.is_quiet && !stream.is_full();
    }
    auto outcome = before_cut();
    if (outcome) outcome = announce_new_streams();
    if (outcome) outcome = begin_part();
    if (outcome) outcome = cut();
    if (outcome) tell_horizon();
    // While there is more to drain soon, nobody needs to ring: writers of a busy program do without.
    are_armed_ = parameters_.wake_after != 0 || !wants_drain_;
    for (Stream& stream : streams_)
        if (!stream.is_quarantined) arm(stream);
    return outcome;
}

Result<void> Consumer::before_cut() const { return parameters_.before_cut ? parameters_.before_cut() : Result<void>(); }

// Those that nobody has heard of come last: whatever they hold by then is announced in this very cycle, before a reader
// gets to know of anything newer.
void Consumer::sample() {
    for (Stream& stream : streams_)
        if (stream.is_announced) sample(stream);
    for (Stream& stream : streams_)
        if (!stream.is_announced) sample(stream);
}

void Consumer::sample(Stream& stream) {
    stream.sample = {};
    if (stream.is_quarantined) return;
    forget_stored(stream);
    auto published = stream.reader.published();
    if (!published) return quarantine(stream, published.error().message);
    stream.sample = *published;
}

Result<void> Consumer::announce_new_streams() {
    std::vector<std::uint64_t> rings;
    for (const Stream& stream : streams_)
        if (!stream.is_announced && (stream.has_records() || !stream.is_quiet)) rings.push_back(stream.ring);
    if (rings.empty()) return {};
    LEAT_TRY(announce(rings));
    // LTTng's relay tells viewers of new streams only along with a packet of one that they know ([LTTng-2.13],
    // "Announcing streams"): give them one.
    Stream& known = streams_.front();
    return is_followed_ && !known.has_records() && !known.is_full() ? write_empty(known) : Result<void>();
}

Result<void> Consumer::announce(std::span<const std::uint64_t> rings) {
    LEAT_TRY(output_->announce(rings));
    for (const std::uint64_t ring : rings) {
        Stream& stream = streams_[ring];
        stream.is_announced = true;
        // It begins where the others are: who follows them has printed up to there. Nothing in it is older, or it is
        // late.
        stream.timestamp = std::max(stream.timestamp, newest_);
    }
    return {};
}

// Packets that are not stored yet come again by themselves. What a ring holds may be unreadable, and give no packet.
Result<void> Consumer::begin_part() {
    if (output_->part() == part_) return {};
    for (Stream& stream : streams_)
        if (stream.is_announced && stream.unstored.empty()) LEAT_TRY(write_empty(stream));
    part_ = output_->part();
    return {};
}

Result<void> Consumer::cut() {
    Result<void> outcome;
    for (Stream& stream : streams_) {
        if (!stream.has_records() || stream.is_full()) continue;
        auto done = cut(stream);
        if (!done && outcome) outcome = std::move(done);
    }
    return outcome;
}

// What was discarded by now happened after the last record of this sample, so the count waits for the next packet:
//
//     ring        ... record   record | discarded 3 | record
//     sample                   head   |
//     packets     events_discarded: 0 |              events_discarded: 3
Result<void> Consumer::cut(Stream& stream) {
    const std::uint64_t discarded = stream.reader.discarded();
    while (stream.has_records() && !stream.is_full()) LEAT_TRY(cut_packet(stream));
    if (stream.has_records()) return {};
    // Records of other sizes than their headers claim may look like fewer records than there were.
    count_unreadable(stream, stream.sample.record_count, stream.sample.head - stream.counted_up_to);
    stream.counted_up_to = stream.sample.head;
    stream.discarded = std::max(stream.discarded, discarded + stream.unreadable);
    return {};
}

Result<void> Consumer::cut_packet(Stream& stream) {
    const UntrustedBytes records = stream.sample.records;
    const ctf::RecordWalker::Part part = next_part(stream);
    if (part.bytes == 0) {
        // Readers wait for a stream's first packet, and cannot tell how many a count in it stands for.
        if (stream.sequence_number == 0) LEAT_TRY(write_empty(stream));
        give_up(stream);
        wants_drain_ = true;
        return {};
    }
    LEAT_TRY(write(stream, records.first(part.bytes), part.records, part.last_timestamp));
    totals_.events += part.records;
    stream.sample.records = records.subspan(part.bytes);
    stream.last_record = part.last_timestamp;
    stream.record_count += part.records;
    wants_drain_ = true;
    return {};
}

// What follows in this sample is no record. Where the next one begins is known again at head, and its time, and how
// many were lost: all of that the writers have stored together.
//
//     taken                  sample.head
//      | ?? ?? ?? ?? ?? ?? ?? | the next record
//                               its short time counts from sample.last_timestamp
//
// Readers never see that last record: so their next packet begins at its time.
void Consumer::give_up(Stream& stream) {
    stream.reader.take(stream.sample.head);
    stream.last_record = stream.sample.last_timestamp;
    stream.timestamp = std::max(stream.timestamp, stream.last_record);
    stream.sample.records = {};
}

// The ring has had `record_count` records: those that were not cut are unreadable. More than fit into the `size` bytes
// since they were last counted, or fewer than were cut, is a lie.
void Consumer::count_unreadable(Stream& stream, std::uint64_t record_count, std::uint64_t size) {
    const std::uint64_t missing = record_count - stream.record_count;
    if (missing <= size / ring::kMinRecordSize) stream.unreadable += missing;
    stream.record_count = record_count;
}

// The last part ends when the ring's last record happened, which the ring tells; the others end with their own.
ctf::RecordWalker::Part Consumer::next_part(const Stream& stream) const {
    const ring::Published& sample = stream.sample;
    const std::size_t room = parameters_.max_packet_size - ctf::kPacketHeaderSize;
    ctf::RecordWalker::Part part =
        walker_->walk_part(sample.records, room, {stream.last_record, sample.last_timestamp});
    if (part.bytes == sample.records.size()) part.last_timestamp = sample.last_timestamp;
    return part;
}

// Whoever reads on waits for the slowest stream. A quiet one has nothing to come that is older than our look at the
// clock, and says so by a beacon; the horizon of all is told only if every stream is quiet.
void Consumer::tell_horizon() {
    if (now_ <= clock_margin()) return;
    const std::uint64_t horizon = now_ - clock_margin();
    horizon_ = std::max(horizon_, horizon);
    bool is_settled = true;
    for (Stream& stream : streams_) {
        if (!stream.is_quiet || stream.has_records()) {
            is_settled = false;
            continue;
        }
        stream.timestamp = std::max(stream.timestamp, horizon);
        // A nanosecond apart: babeltrace2 warns of streams whose beacons are the same, each time.
        const std::uint64_t beacon = horizon - std::min<std::uint64_t>(stream.ring, horizon);
        if (!needs_beacon(stream, beacon)) continue;
        output_->write_beacon(stream.ring, beacon);
        stream.told = beacon;
    }
    if (is_settled) output_->cycle_done(horizon);
}

std::uint64_t Consumer::clock_margin() const { return is_followed_ ? kLiveMargin : parameters_.margin; }

// One that has said more than all others holds nobody up.
bool Consumer::needs_beacon(const Stream& stream, std::uint64_t beacon) const {
    if (!stream.is_announced || stream.told >= beacon) return false;
    return stream.told < newest_ || beacon - stream.told >= kBeaconPeriod;
}

// A ring whose packets wait to be stored does not want to be woken for more. One that begins to be used wants to be
// woken early: its next pages are then there before its writers.
//
//     full, or not cut     not armed: its packets must be stored first, and the output wakes the host for that
//     all cut              armed at `taken` + wake_after, or where half of the touched pages are used
//     busy (wants_drain)   with wake_after 0 not armed: the next drain comes soon without a bell
void Consumer::arm(Stream& stream) {
    forget_stored(stream);
    const bool is_armed = are_armed_ && !stream.is_full() && !stream.has_records();
    wants_drain_ |= is_armed && !stream.is_armed;
    stream.is_armed = is_armed;
    const std::uint64_t position = stream.unstored.empty() ? stream.reader.taken() : stream.reader.released();
    const std::uint64_t used = stream.reader.taken();
    if (used != 0) stream.reader.touch_ahead(std::clamp(kTouchedForUsed * used, kTouchedAtLeast, kTouchedAtMost));
    const std::uint64_t wake_after = std::min(parameters_.wake_after, stream.reader.wake_to_touch());
    stream.reader.release(position, is_armed ? wake_after : ~std::uint64_t{0});
}

// The output stores packets in order, so one number tells all of them. The wish to be woken stays as it is.
//
//     unstored   5  6  7  8     stored() is 7: 5 and 6 go, and `released` is where 6 ended
void Consumer::forget_stored(Stream& stream) const {
    if (stream.unstored.empty()) return;
    const auto position = stream.unstored.note_stored(output_->stored(stream.ring));
    if (position && *position != stream.reader.released()) stream.reader.release(*position);
}

bool Consumer::is_blocked() const {
    return std::any_of(streams_.begin(), streams_.end(),
                       [](const Stream& stream) { return stream.has_records() && stream.is_full(); });
}

Result<void> Consumer::finish() {
    add_used_thread_rings();
    for (Stream& stream : streams_) count_left(stream);
    LEAT_TRY(before_cut());
    Result<void> outcome;
    for (Stream& stream : streams_) {
        auto told = tell_discarded(stream);
        if (!told && outcome) outcome = std::move(told);
    }
    return outcome;
}

// What a quarantined ring had when it was given up, and since, until it was full, is unreadable.
void Consumer::count_left(Stream& stream) {
    if (stream.is_quarantined)
        return count_unreadable(stream, stream.reader.record_count(), rings_->geometry().ring_size);
    if (const auto left = stream.reader.published()) totals_.left_in_rings += walker_->walk(left->records).records;
}

Result<void> Consumer::tell_discarded(Stream& stream) {
    const std::uint64_t discarded = std::max(stream.discarded, stream.reader.discarded() + stream.unreadable);
    if (discarded == stream.discarded_told) return {};
    if (!stream.is_announced) LEAT_TRY(announce(std::array{std::uint64_t{stream.ring}}));
    // A reader that meets a count in its very first packet cannot tell how many: there it takes a packet more.
    if (stream.sequence_number == 0) {
        stream.discarded = 0;
        LEAT_TRY(write_empty(stream));
    }
    stream.discarded = discarded;
    return write_empty(stream);
}

// Writers stamped records before we read the clock, and their stores became visible after our second look: they waited
// in the store buffer of a CPU, or the whole CPU stood still (a virtual one, whose host ran something else).
//
//     writer     stamps 100   stamps 110                                 both visible    stamps 130
//     consumer                             clock: 120   looks: no news                              looks: 100 110 130
//                                                       tells: 120                                  sends: 120 120 130
//
// So all records in front that are older than what was told go out with the time that was told. The copy is taken once:
// a program that writes over its ring meanwhile changes no size that we use twice.
std::vector<std::byte> Consumer::late_records(const Stream& stream, UntrustedBytes records) const {
    const ring::RecordHeaderLayout& layout = walker_->header();
    std::vector<std::byte> late;
    std::uint64_t previous = stream.last_record;
    while (late.size() < records.size()) {
        const UntrustedBytes rest = records.subspan(late.size());
        const ctf::RecordHeaderBytes header = ctf::copy_header(layout, rest);
        previous = ctf::record_timestamp(layout, header, previous);
        if (previous >= stream.timestamp) break;
        const std::size_t size = walker_->walk_part(rest, 1, {}).bytes;
        if (size < header.size) break;
        const ctf::RecordHeaderBytes stamped = ctf::with_timestamp(layout, header, stream.timestamp);
        late.insert(late.end(), stamped.bytes().begin(), stamped.bytes().end());
        late.insert(late.end(), rest.begin() + static_cast<std::ptrdiff_t>(header.size),
                    rest.begin() + static_cast<std::ptrdiff_t>(size));
    }
    return late;
}

std::uint32_t Consumer::stream_class_of(const Stream& stream) const {
    return static_cast<std::uint32_t>(is_of_cpu(stream) ? parameters_.stream_class_id
                                                        : parameters_.thread_stream_class_id);
}

Result<void> Consumer::write_empty(Stream& stream) { return write(stream, {}, 0, 0); }

Result<void> Consumer::write(Stream& stream, UntrustedBytes records, std::uint64_t events,
                             std::uint64_t last_timestamp) {
    const std::uint64_t bits = (ctf::kPacketHeaderSize + records.size()) * 8;
    const std::uint64_t end = std::max(stream.timestamp, last_timestamp);
    const Packet packet{.header = {.uuid = parameters_.trace_uuid,
                                   .stream_id = stream_class_of(stream),
                                   .stream_instance_id = stream.ring,
                                   .timestamp_begin = stream.timestamp,
                                   .timestamp_end = end,
                                   .content_size = bits,
                                   .packet_size = bits,
                                   .packet_seq_num = stream.sequence_number,
                                   .events_discarded = stream.discarded,
                                   .cpu_or_thread_ring = is_of_cpu(stream) ? stream.ring : stream.ring - cpu_rings_},
                        .records = records,
                        .late_records = late_records(stream, records),
                        .events = events};
    LEAT_TRY(output_->write_packet(packet));
    if (!records.empty()) stream.reader.take(stream.reader.taken() + records.size());
    // Packets without records are listed, too: their end is that of the packet before.
    stream.unstored.add(stream.sequence_number, stream.reader.taken());
    stream.timestamp = stream.told = end;
    newest_ = std::max(newest_, end);
    stream.discarded_told = stream.discarded;
    if (stream.sequence_number++ == 0) ++totals_.streams;
    ++totals_.packets;
    totals_.bytes += bits / 8;
    return {};
}

void Consumer::quarantine(Stream& stream, const std::string& why) {
    stream.is_quarantined = true;
    quarantined_.push_back(fmt::format("ring {}: {}", stream.ring, why));
}

std::uint64_t Consumer::discarded() const {
    std::uint64_t sum = 0;
    for (const Stream& stream : streams_) sum += stream.reader.discarded();
    return sum + unreadable();
}

std::uint64_t Consumer::unreadable() const {
    std::uint64_t sum = 0;
    for (const Stream& stream : streams_) sum += stream.unreadable;
    return sum;
}

std::uint64_t Consumer::discarded(ring::DiscardReason reason) const {
    std::uint64_t sum = 0;
    for (const Stream& stream : streams_) sum += stream.reader.discarded(reason);
    return sum;
}

}  // namespace leat::consumer
