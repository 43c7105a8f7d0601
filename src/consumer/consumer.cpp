#include "consumer/consumer.hpp"

#include <algorithm>
#include <array>
#include <iterator>
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
// Places in a ring where events were discarded: more of them become one.
constexpr std::size_t kMaxDiscardsAhead = 64;

// Of a limited size: kept for each stream.
constexpr std::uint64_t kToBeginAndEnd = 2 * ctf::kPacketHeaderSize;

}  // namespace

Consumer::Consumer(std::span<const Source> sources, Output& output, const Parameters& parameters)
    : output_(&output), parameters_(parameters), kept_(parameters.limit) {
    for (const Source& source : sources)
        channels_.push_back({.source = source, .cpu_rings = source.rings->geometry().cpu_rings});
    for (std::uint32_t channel = 0; channel < channels_.size(); ++channel) add_cpu_rings(channel);
    // No reader has been told of a later time than all streams have reached.
    if (is_going_on_) horizon_ = std::ranges::min(streams_, {}, &Stream::timestamp).timestamp;
}

void Consumer::add_cpu_rings(std::uint32_t channel) {
    if (channels_[channel].source.rings->geometry().overwrites) return;
    for (std::uint32_t ring = 0; ring < channels_[channel].cpu_rings; ++ring) {
        // The first packet begins when the ring was made: the first record's gap counts from there. There may be
        // records by now.
        const std::uint64_t created = channels_[channel].source.rings->created();
        Stream& stream = add_stream({.reader = channels_[channel].source.rings->reader(ring),
                                     .id = {channel, ring},
                                     .timestamp = created,
                                     .told = created,
                                     .last_record = created});
        stream.reader.touch_ahead(parameters_.touched_at_first);
        if (!stream.is_quarantined) arm(stream);
    }
}

Consumer::Stream& Consumer::add_stream(Stream stream) {
    const auto known = parameters_.progress != nullptr ? parameters_.progress->find(stream.id) : std::nullopt;
    if (known) {
        stream.reader.go_on_at(known->position);
        stream.saved = *known;
        stream.is_quarantined = known->is_quarantined != 0;
        set_state(stream, *known);
        stream.told = known->timestamp;
        stream.sequence_number = known->sequence_number;
        stream.discards_noted = stream.discards_before;
        stream.events = known->events;
        stream.bytes = known->bytes;
        std::ranges::move(parameters_.progress->planned(stream.id), std::back_inserter(stream.planned));
        if (stream.is_quarantined || stream.planned.empty()) forget_planned(stream);
        if (known->sequence_number != 0) keep_room(stream);
        channels_[stream.id.channel].events += known->events;
        is_going_on_ = true;
    }
    if (parameters_.limit != nullptr && parameters_.limit->can_spare(kToBeginAndEnd)) keep_room(stream);
    horizon_ = std::max(horizon_, stream.timestamp);
    stream.reader.touch_ahead(kTouchedAtFirst);
    return streams_.emplace_back(std::move(stream));
}

// The part of its progress that also changes between two packets.
void Consumer::set_state(Stream& stream, const StreamProgress& state) {
    stream.timestamp = state.timestamp;
    stream.last_record = state.last_record;
    stream.record_count = state.record_count;
    stream.counted_up_to = state.counted_up_to;
    stream.unreadable = state.unreadable;
    stream.beyond_limit = state.beyond_limit;
    stream.discarded = state.discarded;
    stream.discarded_told = state.discarded_told;
    stream.discards_before = state.discarded - std::min(state.discarded, state.unreadable + state.beyond_limit);
}

// A ring of a thread begins empty and at time 0; its stream, where readers of the others are.
// What cannot be mapped is tried again with the next drain. Other rings are drained.
void Consumer::add_used_thread_rings() {
    unmapped_.reset();
    for (std::uint32_t index = 0; index < channels_.size(); ++index) {
        Channel& channel = channels_[index];
        const ring::RingSet& rings = *channel.source.rings;
        if (rings.geometry().overwrites) continue;
        const std::uint32_t in_use = rings.thread_rings_used();
        while (channel.thread_streams < in_use) {
            const std::uint32_t ring = channel.cpu_rings + channel.thread_streams;
            if (const auto mapped = rings.map(ring); !mapped) {
                unmapped_ = mapped.error();
                break;
            }
            ++channel.thread_streams;
            add_stream({.reader = rings.reader(ring), .id = {index, ring}, .timestamp = horizon_, .told = horizon_});
        }
    }
}

Result<void> Consumer::announce_cpu_rings() {
    std::vector<Stream*> streams;
    for (Stream& stream : streams_)
        if (is_of_cpu(stream)) streams.push_back(&stream);
    LEAT_TRY(announce(streams));
    // Packets that come again say something, too, but not before all streams are known that have such packets.
    for (Stream* const stream : streams)
        if (stream->planned.empty()) LEAT_TRY(write_empty(*stream));
    is_followed_ = true;
    return {};
}

// [RFC-live-reading], "Synchronization of streams". Every ring is looked at, then the clock is read, then every ring is
// looked at again: one that did not move meanwhile has nothing to come that is older than the clock, but for records
// whose stores still wait in their CPU (see late_records()). The same with rings that are claimed in between.
Result<void> Consumer::drain() {
    show_life();
    add_used_thread_rings();
    sample();
    now_ = parameters_.clock != nullptr ? ring::clock_now(*parameters_.clock) : 0;
    add_used_thread_rings();
    wants_drain_ = false;
    for (Stream& stream : streams_) {
        stream.is_quiet = stream.is_quarantined || !stream.reader.has_moved();
        wants_drain_ |= !stream.was_sampled || (!stream.is_quiet && !stream.is_full());
    }
    auto outcome = cut_found();
    // In a ring that nobody looks at there may be anything.
    if (outcome && !unmapped_) tell_horizon();
    // While there is more to drain soon, nobody needs to ring: writers of a busy program do without.
    is_idle_ = !wants_drain_;
    arm_all();
    return outcome;
}

// Rings that could not be mapped before, or are new, are looked at once.
Result<void> Consumer::drain_rest() {
    show_life();
    add_used_thread_rings();
    wants_drain_ = false;
    for (Stream& stream : streams_) {
        if (stream.was_sampled) {
            forget_stored(stream);
            continue;
        }
        sample(stream);
        stream.is_quiet = stream.is_quarantined || !stream.reader.has_moved();
    }
    auto outcome = cut_found();
    arm_all();
    return outcome;
}

Result<void> Consumer::cut_found() {
    LEAT_TRY(before_cut());
    LEAT_TRY(announce_new_streams());
    LEAT_TRY(begin_part());
    return cut();
}

void Consumer::arm_all() {
    for (Stream& stream : streams_)
        if (!stream.is_quarantined) arm(stream);
}

Result<void> Consumer::before_cut() const { return parameters_.before_cut ? parameters_.before_cut() : Result<void>(); }

// Those that nobody has heard of come last: whatever they hold by then is announced in this very cycle, before a reader
// gets to know of anything newer.
void Consumer::sample() {
    nearest_bell_ = fullest_ = 0;
    for (Stream& stream : streams_)
        if (stream.is_announced) sample(stream);
    for (Stream& stream : streams_)
        if (!stream.is_announced) sample(stream);
}

void Consumer::sample(Stream& stream) {
    stream.sample = {};
    stream.was_sampled = true;
    if (stream.is_quarantined) return;
    forget_stored(stream);
    note_discards(stream);
    auto published = stream.reader.published();
    if (!published) return quarantine(stream, published.error().message + ": a traced program overwrote it");
    if (is_ahead(published->last_timestamp))
        return quarantine(stream, "ring's time is ahead of the clock: a traced program overwrote it");
    stream.sample = *published;
    measure(stream);
}

// What comes behind such a time would be late, in all rings; and no clock of a CPU goes so far wrong. Where the clock
// has stopped, as for rings that outlived their machine's start, it stands at 0 and says nothing.
bool Consumer::is_ahead(std::uint64_t time) const {
    constexpr std::uint64_t kMaxAhead = 3'600'000'000'000;  // ns
    if (parameters_.clock == nullptr || time < now_ + kMaxAhead) return false;
    const std::uint64_t now = ring::clock_now(*parameters_.clock);
    return now != 0 && time >= now + kMaxAhead;
}

void Consumer::measure(const Stream& stream) {
    const auto part = [](std::uint64_t bytes, std::uint64_t whole) {
        return static_cast<double>(bytes) / static_cast<double>(whole);
    };
    const std::uint64_t found = stream.sample.records.size();
    const std::uint64_t used = found + stream.reader.unreleased();
    fullest_ = std::max(fullest_, part(used, channel_of(stream).source.rings->geometry().ring_size));
    if (stream.rings_after != 0) nearest_bell_ = std::max(nearest_bell_, part(found, stream.rings_after));
}

Result<void> Consumer::announce_new_streams() {
    std::vector<Stream*> streams;
    for (Stream& stream : streams_)
        if (!stream.is_announced && (stream.has_records() || !stream.is_quiet)) streams.push_back(&stream);
    if (streams.empty()) return {};
    LEAT_TRY(announce(streams));
    if (!is_followed_) return {};
    // Relays tell viewers of new streams only along with a packet of one that they know ([LTTng-2.13], "Announcing
    // streams"), and babeltrace2 asks for no packet while a stream in front of it is quiet: give each one.
    constexpr std::uint64_t kPause = 100'000'000;  // ns: one after the other, many threads would cost too many
    const bool was_just_told = news_told_ != 0 && now_ < news_told_ + kPause;
    const bool is_first_alone = parameters_.limit != nullptr || was_just_told;
    if (!is_first_alone) news_told_ = now_;
    for (Stream& known : std::span(streams_).first(is_first_alone ? 1 : streams_.size())) {
        const bool is_known = known.is_announced && std::ranges::find(streams, &known) == streams.end();
        if (is_known && !known.is_quarantined && !known.has_records() && !known.is_full()) LEAT_TRY(write_empty(known));
    }
    return {};
}

Result<void> Consumer::announce(std::span<Stream* const> streams) {
    std::vector<StreamId> ids;
    for (const Stream* const stream : streams) ids.push_back(stream->id);
    LEAT_TRY(output_->announce(ids));
    for (Stream* const stream : streams) {
        stream->is_announced = true;
        keep_room(*stream);
        // It begins where the others are: who follows them has printed up to there. Nothing in it is older, or it is
        // late. One that goes on knows better.
        if (stream->sequence_number == 0 && stream->planned.empty())
            stream->timestamp = std::max(stream->timestamp, newest_);
    }
    return {};
}

// Packets that are not stored yet come again by themselves. What a ring holds may be unreadable, and give no packet.
Result<void> Consumer::begin_part() {
    if (output_->part() == part_) return {};
    for (Stream& stream : streams_)
        if (stream.is_announced && stream.unstored.empty() && stream.planned.empty()) LEAT_TRY(write_empty(stream));
    part_ = output_->part();
    return {};
}

// First what was cut before, of all streams.
Result<void> Consumer::cut() {
    Result<void> outcome;
    const auto note = [&outcome](Result<void> done) {
        if (!done && outcome) outcome = std::move(done);
    };
    for (Stream& stream : streams_)
        if (!stream.planned.empty()) note(cut_planned(stream));
    for (Stream& stream : streams_)
        if (stream.planned.empty() && !stream.is_settled() && !stream.is_full()) note(cut(stream));
    return outcome;
}

// What may be stored already goes out again as it was, also where a limit has been reached since: it was counted then.
Result<void> Consumer::cut_planned(Stream& stream) {
    while (!stream.planned.empty()) {
        show_life();
        const PlannedPacket planned = stream.planned.front();
        const auto part = go_to(stream, planned);
        if (!part) break;
        const UntrustedBytes records = stream.sample.records.first(part->bytes);
        if (!check_there(stream, records)) return {};
        LEAT_TRY(write(stream, records, part->records, planned.last_timestamp));
        stream.sample.records = stream.sample.records.subspan(part->bytes);
        wants_drain_ = true;
    }
    forget_planned(stream);
    return {};
}

// Before what is left is counted, also of streams that no drain() has come to yet.
Result<void> Consumer::cut_all_planned() {
    Result<void> outcome;
    for (Stream& stream : streams_) {
        if (stream.planned.empty()) continue;
        auto cut = stream.is_announced ? Result<void>() : announce(std::array{&stream});
        if (cut) {
            sample(stream);
            cut = cut_planned(stream);
        }
        if (!cut && outcome) outcome = std::move(cut);
    }
    return outcome;
}

// Where the packet begins. Returns the packet's records; nothing if they are not what they were, as when a program has
// written over its ring, or a crash of everything has left what is of different times.
std::optional<ctf::RecordWalker::Part> Consumer::go_to(Stream& stream, const PlannedPacket& planned) const {
    const StreamProgress& before = planned.before;
    const UntrustedBytes sampled = stream.sample.records;
    const std::uint64_t given_up = before.position - stream.reader.taken();
    const std::uint64_t size = planned.size - ctf::kPacketHeaderSize;
    if (before.position < stream.reader.taken() || given_up > sampled.size() || size > sampled.size() - given_up ||
        before.sequence_number < stream.sequence_number || before.timestamp < stream.timestamp ||
        before.events != stream.events)
        return std::nullopt;
    const UntrustedBytes records = sampled.subspan(given_up);
    ctf::RecordWalker::Part part{};
    if (size != 0)
        part = channel_of(stream).source.walker->walk_part(records, size, {before.last_record, planned.last_timestamp});
    if (part.bytes != size) return std::nullopt;
    stream.reader.take(before.position);
    stream.sample.records = records;
    stream.sequence_number = before.sequence_number;
    set_state(stream, before);
    return part;
}

// What is left of it; its numbers stay used.
void Consumer::forget_planned(Stream& stream) const {
    if (parameters_.progress == nullptr) return;
    for (const PlannedPacket& planned : stream.planned)
        parameters_.progress->forget_planned(stream.id, planned.before.sequence_number);
    stream.planned.clear();
    stream.sequence_number = std::max(stream.sequence_number, parameters_.progress->numbers_used(stream.id));
}

Result<void> Consumer::cut(Stream& stream) {
    while (is_to_cut(stream) && !stream.is_full() && !leaves_out()) LEAT_TRY(cut_packet(stream));
    if (leaves_out() && !stream.is_full()) leave_out(stream);
    if (stream.has_records()) return {};
    // Records of other sizes than their headers claim may look like fewer records than there were.
    stream.unreadable += take_missing(stream, stream.sample.record_count, stream.sample.head - stream.counted_up_to);
    stream.counted_up_to = stream.sample.head;
    count_before(stream);
    return {};
}

// A count belongs into the packet that goes on where events were discarded, or readers look for the gap in the wrong
// place:
//
//     ring        ... record   record | discarded 3 | record   record |
//     note                            ^ position
//     packets     events_discarded: 0 |          events_discarded: 3  |
//
// So it is noted before the head is read, and before writers get room: until then a full ring does not move.
void Consumer::note_discards(Stream& stream) {
    const std::uint64_t count = stream.reader.discarded();
    auto& ahead = stream.discards_ahead;
    if (count <= stream.discards_noted) return;
    const std::uint64_t position = stream.reader.taken() + stream.reader.waiting();
    if (!ahead.empty() && (ahead.back().position == position || ahead.size() == kMaxDiscardsAhead))
        ahead.back() = {position, count};
    else
        ahead.push_back({position, count});
    stream.discards_noted = count;
}

void Consumer::tell_discards_before(Stream& stream, std::uint64_t position) {
    auto& ahead = stream.discards_ahead;
    for (; !ahead.empty() && ahead.front().position < position; ahead.pop_front())
        stream.discards_before = ahead.front().count;
    count_before(stream);
}

void Consumer::count_before(Stream& stream) {
    stream.discarded = std::max(stream.discarded, stream.discards_before + stream.unreadable + stream.beyond_limit);
}

// Also while much is being cut: an output may be slow.
void Consumer::show_life() const {
    if (parameters_.clock == nullptr) return;
    const std::uint64_t now = ring::clock_now(*parameters_.clock);
    for (const Channel& channel : channels_) channel.source.rings->show_life(now);
}

Result<void> Consumer::cut_packet(Stream& stream) {
    show_life();
    const UntrustedBytes records = stream.sample.records;
    if (limit_room(stream) < ctf::kPacketHeaderSize + ring::kMinRecordSize) {
        parameters_.limit->reach();
        return {};
    }
    const ctf::RecordWalker::Part part = next_part(stream);
    // What is gone looks like records.
    if (!check_there(stream, records.first(part.bytes))) return {};
    if (part.bytes == 0) {
        // Readers wait for a stream's first packet.
        if (stream.sequence_number == 0) LEAT_TRY(write_empty(stream));
        give_up(stream);
        wants_drain_ = true;
        return {};
    }
    tell_discards_before(stream, stream.reader.taken() + part.bytes);
    if (stream.sequence_number == 0 && stream.discarded != 0) LEAT_TRY(write_empty(stream));
    // A single record may be larger than what it was to fit into.
    if (limit_room(stream) < ctf::kPacketHeaderSize + part.bytes) {
        parameters_.limit->reach();
        return {};
    }
    auto written = write(stream, records.first(part.bytes), part.records, part.last_timestamp);
    if (!written) return check_there(stream, records.first(part.bytes)) ? std::move(written) : Result<void>();
    stream.sample.records = records.subspan(part.bytes);
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

// The same with records that nobody wants: how many there are, the ring says.
void Consumer::leave_out(Stream& stream) {
    give_up(stream);
    wants_drain_ = true;
    stream.beyond_limit += take_missing(stream, stream.sample.record_count, stream.sample.head - stream.counted_up_to);
}

// The ring has had `record_count` records: how many of them were neither cut nor counted. More than fit into the `size`
// bytes since they were last counted, or fewer than were cut, is a lie.
std::uint64_t Consumer::take_missing(Stream& stream, std::uint64_t record_count, std::uint64_t size) {
    const std::uint64_t missing = record_count - stream.record_count;
    stream.record_count = record_count;
    return missing <= size / ring::kMinRecordSize ? missing : 0;
}

bool Consumer::leaves_out() const {
    return leaves_out_ || (parameters_.limit != nullptr && parameters_.limit->is_reached());
}

// For a first packet, and for the last one, which tells what was discarded.
void Consumer::keep_room(Stream& stream) {
    if (std::exchange(stream.has_room_kept, true)) return;
    kept_.add(stream.sequence_number == 0 ? kToBeginAndEnd : ctf::kPacketHeaderSize);
}

std::uint64_t Consumer::limit_room(const Stream& stream) const {
    if (parameters_.limit == nullptr) return ~std::uint64_t{0};
    const bool is_first = stream.has_room_kept && stream.sequence_number == 0;
    return parameters_.limit->room(is_first ? ctf::kPacketHeaderSize : 0);
}

bool Consumer::has_room_to_tell(const Stream& stream) const {
    const std::uint64_t packets = stream.sequence_number == 0 ? 2 : 1;
    return parameters_.limit == nullptr || parameters_.limit->has_room_at_the_end(packets * ctf::kPacketHeaderSize);
}

std::size_t Consumer::packet_room(const Stream& stream) const {
    return std::min(parameters_.max_packet_size, channel_of(stream).source.max_packet_size) - ctf::kPacketHeaderSize;
}

bool Consumer::is_to_cut(const Stream& stream) const {
    return stream.has_records() && (!cuts_full_packets_only_ || stream.sample.records.size() >= packet_room(stream));
}

bool Consumer::has_full_packet() const {
    for (const Channel& channel : channels_)
        if (channel.thread_streams < channel.source.rings->thread_rings_used()) return true;
    return std::ranges::any_of(streams_, [this](const Stream& stream) {
        return !stream.is_quarantined && stream.reader.waiting() >= packet_room(stream);
    });
}

// The last part ends when the ring's last record happened, which the ring tells; the others end with their own.
ctf::RecordWalker::Part Consumer::next_part(const Stream& stream) const {
    const ring::Published& sample = stream.sample;
    const std::size_t room = std::min<std::size_t>(packet_room(stream), limit_room(stream) - ctf::kPacketHeaderSize);
    ctf::RecordWalker::Part part =
        channel_of(stream).source.walker->walk_part(sample.records, room, {stream.last_record, sample.last_timestamp});
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
    // A cycle apart: babeltrace2 warns of streams whose beacons are the same, each time.
    std::uint64_t earlier = 0;
    for (Stream& stream : streams_) {
        const std::uint64_t beacon = horizon - std::min(earlier, horizon);
        earlier += clock().cycle();
        if (!stream.is_quiet || stream.has_records()) {
            is_settled = false;
            continue;
        }
        stream.timestamp = std::max(stream.timestamp, horizon);
        if (!needs_beacon(stream, beacon)) continue;
        output_->write_beacon(stream.id, clock().cycles(beacon));
        stream.told = beacon;
    }
    if (is_settled) output_->cycle_done(clock().cycles(horizon));
}

std::uint64_t Consumer::clock_margin() const { return is_followed_ ? kLiveMargin : parameters_.margin; }

// One that has said more than all others holds nobody up.
bool Consumer::needs_beacon(const Stream& stream, std::uint64_t beacon) const {
    if (!stream.is_announced || clock().cycles(stream.told) >= clock().cycles(beacon)) return false;
    return stream.told < newest_ || beacon - stream.told >= kBeaconPeriod;
}

// A ring whose packets wait to be stored does not want to be woken for more. One that begins to be used wants to be
// woken early: its next pages are then there before its writers.
//
//     full, or not cut     not armed: its packets must be stored first, and the output wakes the host for that (see
//                          awaits_output())
//     all cut              armed at `taken` + wake_after, or where half of the touched pages are used
//     busy (wants_drain)   with wake_after 0 not armed: the next drain comes soon without a bell
//     idle, seldom drained armed at `taken`. A writer may have looked at the bell just before: one more drain
void Consumer::arm(Stream& stream) {
    forget_stored(stream);
    const std::uint64_t wish = is_idle_ && wakes_at_first_record_ ? 0 : channel_of(stream).source.wake_after;
    const bool is_armed =
        !parameters_.is_polled && (is_idle_ || wish != 0) && !stream.is_full() && !stream.has_records();
    wants_drain_ |= is_armed && (!stream.is_armed || wish < stream.wake_after);
    stream.is_armed = is_armed;
    stream.wake_after = wish;
    const std::uint64_t position = stream.unstored.empty() ? stream.reader.taken() : stream.reader.released();
    if (position != stream.reader.released()) note_discards(stream);
    if (stream.unstored.empty()) save(stream, progress_of(stream));
    const std::uint64_t used = stream.reader.taken();
    if (used != 0) stream.reader.touch_ahead(std::clamp(kTouchedForUsed * used, kTouchedAtLeast, kTouchedAtMost));
    stream.rings_after = std::min(wish, stream.reader.wake_to_touch());
    stream.reader.release(position, is_armed ? stream.rings_after : ~std::uint64_t{0});
}

// The output stores packets in order, so one number tells all of them. The wish to be woken stays as it is.
//
//     unstored   5  6  7  8     stored() is 7: 5 and 6 go, and `released` is where 6 ended
void Consumer::forget_stored(Stream& stream) const {
    if (stream.unstored.empty()) return;
    const auto stored = stream.unstored.note_stored(output_->stored(stream.id));
    if (!stored) return;
    save(stream, *stored);
    if (stored->position == stream.reader.released()) return;
    note_discards(stream);
    stream.reader.release(stored->position);
}

// When all that was taken is stored.
StreamProgress Consumer::progress_of(const Stream& stream) {
    return {.position = stream.reader.taken(),
            .sequence_number = stream.sequence_number,
            .timestamp = stream.timestamp,
            .last_record = stream.last_record,
            .record_count = stream.record_count,
            .counted_up_to = stream.counted_up_to,
            .unreadable = stream.unreadable,
            .beyond_limit = stream.beyond_limit,
            .discarded = stream.discarded,
            .discarded_told = stream.discarded_told,
            .events = stream.events,
            .bytes = stream.bytes,
            .is_quarantined = stream.is_quarantined ? 1U : 0U};
}

void Consumer::save(Stream& stream, const StreamProgress& progress) const {
    if (parameters_.progress == nullptr || stream.saved == progress) return;
    parameters_.progress->save(stream.id, progress);
    stream.saved = progress;
}

// Who goes on after us, and cannot see what the output has, cuts the packet in the same way.
void Consumer::save_plan(Stream& stream, std::uint64_t size, std::uint64_t last_timestamp) const {
    if (parameters_.progress == nullptr) return;
    const StreamProgress before = progress_of(stream);
    if (stream.unstored.empty()) save(stream, before);
    parameters_.progress->plan(stream.id, {.before = before, .size = size, .last_timestamp = last_timestamp});
}

bool Consumer::is_blocked() const { return std::ranges::any_of(streams_, &Stream::has_records); }

bool Consumer::awaits_output() const {
    return std::ranges::any_of(streams_, [this](const Stream& stream) {
        return stream.is_full() || stream.has_records() || !has_room_to_ring(stream);
    });
}

// A bell beyond the end of the ring is none: there, writers find no room.
bool Consumer::has_room_to_ring(const Stream& stream) const {
    const std::uint64_t ring_size = channel_of(stream).source.rings->geometry().ring_size;
    return stream.reader.unreleased() + stream.rings_after < ring_size;
}

bool Consumer::release_stored() {
    for (Stream& stream : streams_) forget_stored(stream);
    return std::ranges::all_of(streams_, [](const Stream& stream) { return stream.unstored.empty(); });
}

Result<void> Consumer::finish() {
    add_used_thread_rings();
    auto outcome = before_cut();
    if (outcome) outcome = cut_all_planned();
    totals_.left_in_rings = 0;
    for (Stream& stream : streams_) count_left(stream);
    for (const Channel& channel : channels_) count_unmapped(channel);
    auto told = tell_discarded();
    return outcome ? std::move(told) : outcome;
}

void Consumer::count_unmapped(const Channel& channel) {
    const ring::RingSet& rings = *channel.source.rings;
    if (rings.geometry().overwrites) return;
    const std::uint64_t most = rings.geometry().ring_size / ring::kMinRecordSize;
    for (std::uint32_t thread = channel.thread_streams; thread < rings.thread_rings_used(); ++thread)
        totals_.left_in_rings += std::min(rings.records_in_file(channel.cpu_rings + thread), most);
}

Result<void> Consumer::tell_discarded() {
    LEAT_TRY(before_cut());
    auto outcome = cut_all_planned();
    for (Stream& stream : streams_) {
        if (!stream.planned.empty()) continue;
        auto told = tell_discarded(stream);
        if (!told && outcome) outcome = std::move(told);
    }
    return outcome;
}

// What a quarantined ring had when it was given up, and since, until it was full, is unreadable.
void Consumer::count_left(Stream& stream) {
    if (stream.is_quarantined) {
        stream.unreadable +=
            take_missing(stream, stream.reader.record_count(), channel_of(stream).source.rings->geometry().ring_size);
        return;
    }
    if (const auto left = stream.reader.published())
        totals_.left_in_rings += channel_of(stream).source.walker->walk(left->records).records;
}

Result<void> Consumer::tell_discarded(Stream& stream) {
    const std::uint64_t discarded =
        std::max(stream.discarded, stream.reader.discarded() + stream.unreadable + stream.beyond_limit);
    if (discarded == stream.discarded_told || !has_room_to_tell(stream)) return {};
    if (!stream.is_announced) LEAT_TRY(announce(std::array{&stream}));
    if (stream.sequence_number == 0) LEAT_TRY(write_count(stream));
    stream.discarded = discarded;
    return write_count(stream);
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
    const ctf::RecordWalker& walker = *channel_of(stream).source.walker;
    const ring::RecordHeaderLayout& layout = walker.header();
    std::vector<std::byte> late;
    std::uint64_t previous = stream.last_record;
    while (late.size() < records.size()) {
        const UntrustedBytes rest = records.subspan(late.size());
        const ctf::RecordHeaderBytes header = ctf::copy_header(layout, rest);
        previous = ctf::record_timestamp(layout, header, previous);
        if (previous >= layout.whole_cycles(stream.timestamp)) break;
        const std::size_t size = walker.walk_part(rest, 1, {}).bytes;
        if (size < header.size) break;
        const ctf::RecordHeaderBytes stamped = ctf::with_timestamp(layout, header, stream.timestamp);
        late.insert(late.end(), stamped.bytes().begin(), stamped.bytes().end());
        late.insert(late.end(), rest.begin() + static_cast<std::ptrdiff_t>(header.size),
                    rest.begin() + static_cast<std::ptrdiff_t>(size));
    }
    return late;
}

std::uint32_t Consumer::stream_class_of(const Stream& stream) const {
    const Source& source = channel_of(stream).source;
    return static_cast<std::uint32_t>(is_of_cpu(stream) ? source.stream_class_id : source.thread_stream_class_id);
}

// Once the size limit is reached, what is missing is told at the end, and nothing else.
Result<void> Consumer::write_empty(Stream& stream) {
    if (limit_room(stream) < ctf::kPacketHeaderSize) parameters_.limit->reach();
    if (leaves_out()) return {};
    if (stream.sequence_number != 0) tell_discards_before(stream, stream.reader.taken() + 1);
    return write_count(stream);
}

// A reader that meets a count in a stream's very first packet cannot tell how many: that takes a packet more.
Result<void> Consumer::write_count(Stream& stream) {
    const std::uint64_t discarded = stream.discarded;
    if (stream.sequence_number == 0) stream.discarded = 0;
    auto outcome = write(stream, {}, 0, 0);
    stream.discarded = discarded;
    return outcome;
}

Result<void> Consumer::write(Stream& stream, UntrustedBytes records, std::uint64_t events,
                             std::uint64_t last_timestamp) {
    const std::uint64_t bits = (ctf::kPacketHeaderSize + records.size()) * 8;
    const std::uint64_t end = std::max(stream.timestamp, last_timestamp);
    const std::uint32_t cpu_rings = channel_of(stream).cpu_rings;
    const Packet packet{.stream = stream.id,
                        .header = {.uuid = parameters_.trace_uuid,
                                   .stream_id = stream_class_of(stream),
                                   .stream_instance_id = stream.id.ring,
                                   .timestamp_begin = clock().cycles(stream.timestamp),
                                   .timestamp_end = clock().cycles(end),
                                   .content_size = bits,
                                   .packet_size = bits,
                                   .packet_seq_num = stream.sequence_number,
                                   .events_discarded = stream.discarded,
                                   .cpu_or_thread_ring = stream.id.ring - (is_of_cpu(stream) ? 0 : cpu_rings)},
                        .records = records,
                        .late_records = late_records(stream, records),
                        .events = events};
    const bool comes_again = !stream.planned.empty();
    if (!comes_again) save_plan(stream, bits / 8, last_timestamp);
    auto written = output_->write_packet(packet);
    if (!written) {
        if (!comes_again && parameters_.progress != nullptr)
            parameters_.progress->take_back(stream.id, stream.sequence_number);
        return written;
    }
    if (comes_again) stream.planned.pop_front();
    if (!records.empty()) {
        stream.reader.take(stream.reader.taken() + records.size());
        stream.last_record = last_timestamp;
        stream.record_count += events;
        stream.events += events;
        channels_[stream.id.channel].events += events;
        totals_.events += events;
    }
    stream.told = end;
    // The next one begins later than this one: babeltrace2 sorts the packets of several chunks by nothing but that.
    stream.timestamp = std::max(end, stream.timestamp + clock().cycle());
    newest_ = std::max(newest_, end);
    stream.discarded_told = stream.discarded;
    const std::uint64_t number = stream.sequence_number++;
    if (number == 0) {
        ++totals_.streams;
        if (stream.has_room_kept) kept_.remove(ctf::kPacketHeaderSize);
    }
    ++totals_.packets;
    totals_.bytes += bits / 8;
    stream.bytes += bits / 8;
    if (parameters_.limit != nullptr && !comes_again) parameters_.limit->use(bits / 8);
    // Packets without records are listed, too: they end where the packet before does.
    stream.unstored.add(number, progress_of(stream));
    forget_stored(stream);
    return {};
}

// Of a ring in a file that somebody may have shortened.
Result<void> Consumer::check_there(Stream& stream, UntrustedBytes records) {
    auto there = stream.reader.check_there(records);
    if (!there) quarantine(stream, there.error().message);
    return there;
}

void Consumer::quarantine(Stream& stream, const std::string& why) {
    stream.is_quarantined = true;
    forget_planned(stream);
    if (stream.unstored.empty()) save(stream, progress_of(stream));
    quarantined_.push_back(fmt::format("ring {}: {}", stream.id.ring, why));
}

std::uint64_t Consumer::discarded() const {
    std::uint64_t sum = 0;
    for (const Stream& stream : streams_) sum += stream.reader.discarded();
    return sum + unreadable() + beyond_limit();
}

std::uint64_t Consumer::discarded_told() const {
    std::uint64_t sum = 0;
    for (const Stream& stream : streams_) sum += stream.discarded_told;
    return sum;
}

std::uint64_t Consumer::unreadable() const {
    std::uint64_t sum = 0;
    for (const Stream& stream : streams_) sum += stream.unreadable;
    return sum;
}

std::uint64_t Consumer::unreadable(std::size_t channel) const {
    std::uint64_t sum = 0;
    for (const Stream& stream : streams_)
        if (stream.id.channel == channel) sum += stream.unreadable;
    return sum;
}

std::uint64_t Consumer::beyond_limit() const {
    std::uint64_t sum = 0;
    for (const Stream& stream : streams_) sum += stream.beyond_limit;
    return sum;
}

std::uint64_t Consumer::beyond_limit(std::size_t channel) const {
    std::uint64_t sum = 0;
    for (const Stream& stream : streams_)
        if (stream.id.channel == channel) sum += stream.beyond_limit;
    return sum;
}

std::uint64_t Consumer::bytes(std::size_t channel) const {
    std::uint64_t sum = 0;
    for (const Stream& stream : streams_)
        if (stream.id.channel == channel) sum += stream.bytes;
    return sum;
}

std::uint64_t Consumer::discarded(ring::DiscardReason reason) const {
    std::uint64_t sum = 0;
    for (const Stream& stream : streams_) sum += stream.reader.discarded(reason);
    return sum;
}

}  // namespace leat::consumer
