#include "consumer/consumer.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "ring/thread_writer.hpp"

namespace leat::consumer {
namespace {

// Between a writer's reading of the clock and ours: TSCs of two CPUs may differ by a fraction of this.
constexpr std::uint64_t kClockMargin = 1'000;  // ns
// A stream that nobody waits for is told about this often at most.
constexpr std::uint64_t kBeaconPeriod = 100'000'000;  // ns

}  // namespace

Consumer::Consumer(const ring::RingSet& rings, const ctf::RecordWalker& walker, Output& output,
                   const Parameters& parameters)
    : walker_(&walker), output_(&output), parameters_(parameters) {
    for (std::uint32_t ring = 0; ring < rings.geometry().ring_count(); ++ring) {
        Stream stream{.reader = rings.reader(ring), .ring = ring};
        // The first packet begins when the ring was made: the first record's gap counts from there.
        if (const auto published = stream.reader.published()) stream.last_record = published->last_timestamp;
        stream.timestamp = stream.told = stream.last_record;
        arm(stream);
        streams_.push_back(std::move(stream));
    }
    cpu_rings_ = rings.geometry().cpu_rings;
}

Result<void> Consumer::announce_cpu_rings() {
    std::vector<std::uint64_t> rings;
    for (std::uint32_t ring = 0; ring < cpu_rings_; ++ring) rings.push_back(ring);
    LEAT_TRY(announce(rings));
    for (const std::uint64_t ring : rings) LEAT_TRY(write_empty(streams_[ring]));
    is_followed_ = true;
    return {};
}

// Document 000, stream synchronisation. Every ring is looked at, then the clock is read, then every ring is looked at
// again: one that did not move meanwhile has nothing to come that is older than the clock, but for one record that a
// writer may be about to commit (see header_for_late_record()).
Result<void> Consumer::drain() {
    sample();
    now_ = parameters_.clock != nullptr ? ring::clock_now(*parameters_.clock) : 0;
    wants_drain_ = false;
    for (Stream& stream : streams_) {
        stream.is_quiet = stream.is_quarantined || !stream.reader.has_moved();
        wants_drain_ |= !stream.is_quiet && !stream.is_full();
    }
    auto outcome = announce_new_streams();
    if (outcome) outcome = begin_part();
    if (outcome) outcome = cut();
    if (outcome) tell_horizon();
    // While there is more to drain soon, nobody needs to ring: writers of a busy program do without.
    const bool were_armed = std::exchange(are_armed_, parameters_.wake_after != 0 || !wants_drain_);
    for (Stream& stream : streams_)
        if (!stream.is_quarantined) arm(stream);
    wants_drain_ |= are_armed_ && !were_armed;
    return outcome;
}

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
    if (published)
        stream.sample = *published;
    else
        quarantine(stream, published.error().message);
}

Result<void> Consumer::announce_new_streams() {
    std::vector<std::uint64_t> rings;
    for (const Stream& stream : streams_)
        if (!stream.is_announced && (stream.has_records() || !stream.is_quiet)) rings.push_back(stream.ring);
    if (rings.empty()) return {};
    LEAT_TRY(announce(rings));
    // LTTng's relay tells viewers of new streams only along with a packet of one that they know: give them one.
    Stream& known = streams_.front();
    return is_followed_ && !known.has_records() && !known.is_full() ? write_empty(known) : Result<void>();
}

Result<void> Consumer::announce(std::span<const std::uint64_t> rings) {
    LEAT_TRY(output_->announce(rings));
    for (const std::uint64_t ring : rings) streams_[ring].is_announced = true;
    return {};
}

// Packets that are not stored yet come again by themselves.
Result<void> Consumer::begin_part() {
    if (output_->part() == part_) return {};
    for (Stream& stream : streams_)
        if (stream.is_announced && stream.unstored.empty() && !stream.has_records()) LEAT_TRY(write_empty(stream));
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

// What was discarded by now lies behind the last record of this sample.
Result<void> Consumer::cut(Stream& stream) {
    const std::uint64_t discarded = stream.reader.discarded();
    while (stream.has_records() && !stream.is_full()) LEAT_TRY(cut_packet(stream));
    if (!stream.has_records()) stream.discarded = std::max(stream.discarded, discarded);
    return {};
}

Result<void> Consumer::cut_packet(Stream& stream) {
    const UntrustedBytes records = stream.sample.records;
    const ctf::RecordWalker::Part part = next_part(stream);
    if (part.bytes == 0) {
        quarantine(stream, fmt::format("{} bytes in it are no event record", records.size()));
        return {};
    }
    LEAT_TRY(write(stream, records.first(part.bytes), part.records, part.last_timestamp));
    totals_.events += part.records;
    stream.sample.records = records.subspan(part.bytes);
    stream.last_record = part.last_timestamp;
    wants_drain_ = true;
    return {};
}

// The last part ends when the ring's last record happened, which the ring tells; the others end with their own.
ctf::RecordWalker::Part Consumer::next_part(const Stream& stream) const {
    const ring::Published& sample = stream.sample;
    const std::size_t room = parameters_.max_packet_size - ctf::kPacketHeaderSize;
    if (sample.records.size() <= room) return {walker_->walk(sample.records), sample.last_timestamp};
    ctf::RecordWalker::Part part = walker_->walk_part(sample.records, room, stream.last_record);
    part.last_timestamp = std::clamp(part.last_timestamp, stream.last_record, sample.last_timestamp);
    return part;
}

void Consumer::tell_horizon() {
    if (now_ <= kClockMargin) return;
    const std::uint64_t horizon = now_ - kClockMargin;
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

// One that has said more than all others holds nobody up.
bool Consumer::needs_beacon(const Stream& stream, std::uint64_t beacon) const {
    if (!stream.is_announced || stream.told >= beacon) return false;
    return stream.told < newest_ || beacon - stream.told >= kBeaconPeriod;
}

// A ring whose packets wait to be stored does not want to be woken for more.
void Consumer::arm(Stream& stream) const {
    forget_stored(stream);
    const bool is_held_up = stream.is_full() || stream.has_records();
    const std::uint64_t position = stream.unstored.empty() ? stream.reader.taken() : stream.reader.released();
    stream.reader.release(position, is_held_up || !are_armed_ ? ~std::uint64_t{0} : parameters_.wake_after);
}

void Consumer::forget_stored(Stream& stream) const {
    if (stream.unstored.empty()) return;
    const std::uint64_t stored = output_->stored(stream.ring);
    std::uint64_t position = stream.reader.released();
    while (!stream.unstored.empty() && stream.unstored.front().sequence_number < stored) {
        position = stream.unstored.front().end;
        stream.unstored.pop_front();
    }
    if (position != stream.reader.released()) stream.reader.release(position, ~std::uint64_t{0});
}

bool Consumer::is_blocked() const {
    return std::any_of(streams_.begin(), streams_.end(),
                       [](const Stream& stream) { return stream.has_records() && stream.is_full(); });
}

Result<void> Consumer::finish() {
    Result<void> outcome;
    for (Stream& stream : streams_) {
        auto finished = finish(stream);
        if (!finished && outcome) outcome = std::move(finished);
    }
    return outcome;
}

Result<void> Consumer::finish(Stream& stream) {
    const auto left = stream.is_quarantined ? Result<ring::Published>() : stream.reader.published();
    if (left) totals_.left_in_rings += walker_->walk(left->records).records;
    const std::uint64_t discarded = std::max(stream.discarded, stream.reader.discarded());
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

// A writer read the clock before we did, was held up, and committed its record behind our second look: it is older than
// what was told. That is one record at most, the next packet's first; readers get it with the time that was told.
ctf::RecordHeaderBytes Consumer::header_for_late_record(const Stream& stream, UntrustedBytes records) const {
    if (records.empty()) return {};
    const bool is_late = ctf::record_timestamp(walker_->header(), records, stream.last_record) < stream.timestamp;
    return is_late ? ctf::with_timestamp(walker_->header(), records, stream.timestamp) : ctf::RecordHeaderBytes{};
}

Result<void> Consumer::write_empty(Stream& stream) { return write(stream, {}, 0, 0); }

Result<void> Consumer::write(Stream& stream, UntrustedBytes records, std::uint64_t events,
                             std::uint64_t last_timestamp) {
    const std::uint64_t bits = (ctf::kPacketHeaderSize + records.size()) * 8;
    const std::uint64_t end = std::max(stream.timestamp, last_timestamp);
    const Packet packet{.header = {.uuid = parameters_.trace_uuid,
                                   .stream_id = static_cast<std::uint32_t>(parameters_.stream_class_id),
                                   .stream_instance_id = stream.ring,
                                   .timestamp_begin = stream.timestamp,
                                   .timestamp_end = end,
                                   .content_size = bits,
                                   .packet_size = bits,
                                   .packet_seq_num = stream.sequence_number,
                                   .events_discarded = stream.discarded,
                                   .cpu_id = stream.ring},
                        .records = records,
                        .first_header = header_for_late_record(stream, records),
                        .events = events};
    LEAT_TRY(output_->write_packet(packet));
    if (!records.empty()) stream.reader.take(stream.reader.taken() + records.size());
    stream.unstored.push_back({stream.sequence_number, stream.reader.taken()});
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
    return sum;
}

std::uint64_t Consumer::discarded(ring::DiscardReason reason) const {
    std::uint64_t sum = 0;
    for (const Stream& stream : streams_) sum += stream.reader.discarded(reason);
    return sum;
}

}  // namespace leat::consumer
