#include "consumer/snapshots.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace leat::consumer {
namespace {

// Bytes of rings that are copied together, before they are written: what is written later may be gone by then.
constexpr std::uint64_t kBatchSize = 256U << 20;

}  // namespace

ring::BlockReader Snapshots::reader(const Stream& stream) const {
    return sources_[stream.id.channel].rings->block_reader(stream.id.ring);
}

void Snapshots::add_streams() {
    for (std::uint32_t channel = 0; channel < sources_.size(); ++channel) {
        const ring::RingSet& rings = *sources_[channel].rings;
        if (!rings.geometry().overwrites) continue;
        const std::uint32_t in_use = rings.mapped_in_use();
        for (std::uint32_t ring = 0; ring < in_use; ++ring)
            if (const StreamId id{channel, ring}; !streams_.contains(id)) streams_.emplace(id, make_stream(id));
    }
}

Snapshots::Stream Snapshots::make_stream(StreamId id) const {
    Stream stream{.id = id};
    const auto saved = progress_ != nullptr ? progress_->find(id) : std::nullopt;
    if (!saved) return stream;
    stream.forgotten = std::min(saved->counted_up_to, saved->position);
    stream.ordinal = ordinal_of(*saved);
    // One that comes after that was not begun: its process was killed before.
    progress_->drop_ends(id, stream.ordinal + 1);
    for (const Progress::End& end : ends_up_to(*saved, progress_->ends(id))) {
        if (end.at.position < stream.forgotten) continue;
        // Of the ends before the first that is known, nobody knows: what lies below may be cut anywhere.
        if (stream.ends.empty() && end.ordinal > 1) stream.forgotten = std::max(stream.forgotten, end.at.position);
        stream.ends.push_back(end.at.position);
        if (end.at.position != saved->position) stream.cuts.push_back(cut_at(end.at));
    }
    stream.cuts.push_back(cut_at(*saved));
    stream.is_adopted = true;
    if (!stream.ends.empty()) return stream;
    if (stream.ordinal != 0) stream.forgotten = saved->position;
    save(stream);
    return stream;
}

// Those that are there without a gap, up to what is saved: pages of a file may be lost. A daemon of before has saved no
// ordinal, and no ends.
std::vector<Progress::End> Snapshots::ends_up_to(const StreamProgress& saved, std::vector<Progress::End> known) {
    std::vector<Progress::End> ends;
    std::uint64_t expected = ordinal_of(saved);
    std::uint64_t position = saved.position;
    for (auto end = known.rbegin(); end != known.rend() && end->ordinal == expected; ++end, --expected) {
        const bool can_be = ends.empty() ? end->at.position == position : end->at.position < position;
        if (!can_be) break;
        position = end->at.position;
        ends.push_back(*end);
    }
    std::ranges::reverse(ends);
    return ends;
}

Snapshots::Cut Snapshots::cut_at(const StreamProgress& end) {
    return {.note = {end.position, end.timestamp, end.record_count, end.discarded}, .number = end.sequence_number};
}

// Before packets are written that end there.
void Snapshots::save(Stream& stream) const {
    if (progress_ == nullptr || stream.cuts.empty()) return;
    const auto& [note, number] = stream.cuts.back();
    const bool is_new = stream.ends.empty() || stream.ends.back() != note.position;
    if (is_new) add_end(stream);
    const StreamProgress end{.position = note.position,
                             .sequence_number = number,
                             .timestamp = note.timestamp,
                             .record_count = note.records,
                             .counted_up_to = stream.forgotten,
                             .discarded = note.discarded,
                             .discarded_told = stream.ordinal};
    if (is_new) progress_->add_end(stream.id, {.ordinal = stream.ordinal, .at = end});
    progress_->save(stream.id, end);
}

// Whoever goes on does not know of more: below the last that goes, packets may end anywhere. It has gone from memory
// only at the next end, when that is saved.
void Snapshots::add_end(Stream& stream) {
    while (stream.ends.size() >= Progress::kMaxPlanned - 1) {
        stream.forgotten = std::max(stream.forgotten, stream.ends.front());
        stream.ends.pop_front();
    }
    stream.ends.push_back(stream.cuts.back().note.position);
    ++stream.ordinal;
}

// Between the ends of two snapshots packets begin at blocks alone, and each has a number.
//
//     forgotten                        an end                                     another
//      |   | n - 2    | n - 1    | n    | n + 1      | n + 2    | n + 3    | n + 4   |
//      |   note       note       note                note       note       note
void Snapshots::recover_numbers(Stream& stream, const std::vector<ring::BlockNote>& notes) {
    stream.is_adopted = false;
    std::uint64_t begin = stream.forgotten;
    for (const Cut& end : std::exchange(stream.cuts, {})) {
        std::vector<Cut> cuts;
        for (const ring::BlockNote& note : notes)
            if (note.position >= begin && note.position < end.note.position) cuts.push_back({note, end.number});
        // Whatever else is in the notes of a program that wrote over them.
        if (cuts.size() > end.number || (!cuts.empty() && cuts.back().note.records > end.note.records)) cuts.clear();
        for (std::size_t i = 0; i < cuts.size(); ++i) cuts[i].number -= cuts.size() - i;
        cuts.push_back(end);
        // Something between is gone: then so is all before it.
        if (!stream.cuts.empty() && stream.cuts.back().number + 1 != cuts.front().number) stream.cuts.clear();
        stream.cuts.insert(stream.cuts.end(), cuts.begin(), cuts.end());
        begin = end.note.position + 1;
    }
}

void Snapshots::touch_used() {
    add_streams();
    for (auto& [id, stream] : streams_) {
        if (stream.is_touched || reader(stream).head() == 0) continue;
        reader(stream).touch();
        stream.is_touched = true;
    }
}

std::uint64_t Snapshots::discarded(ring::DiscardReason reason) const {
    std::uint64_t sum = 0;
    for (const auto& [id, stream] : streams_) sum += reader(stream).discarded(reason);
    return sum;
}

// Programs write over notes, too: packets of later snapshots must not begin before those of earlier ones have ended.
Result<void> Snapshots::check_order(const std::vector<Cut>& known, const std::vector<ring::BlockNote>& notes) {
    if (known.empty()) return {};
    const ring::BlockNote& last = known.back().note;
    const auto is_new = [&last](const ring::BlockNote& note) { return note.position > last.position; };
    const auto next = std::ranges::find_if(notes, is_new);
    if (notes.empty() || notes.back().position < last.position) return corrupt("ring's head goes back");
    const ring::BlockNote& after = next == notes.end() ? notes.back() : *next;
    if (after.timestamp < last.timestamp || after.records < last.records)
        return corrupt("ring's block at byte {} is older than what was there before", after.position);
    return {};
}

// What is found in the ring from now on has nothing to do with what was there before.
void Snapshots::give_up(Stream& stream) const {
    if (stream.cuts.empty()) return;
    stream.is_adopted = false;
    stream.first_number = stream.cuts.back().number + 2;
    stream.cuts.clear();
    stream.ends.clear();
    if (progress_ != nullptr) progress_->drop_ends(stream.id);
}

// Where the packets of the last snapshot began, as far as they are still there, and where blocks begin since. A number
// is left out where something is gone: readers learn from that.
//
//     cuts before           5     6  7     8
//     notes                       6        8        (9)      (10)     end
Result<void> Snapshots::look(Stream& stream) const {
    std::vector<ring::BlockNote> notes = LEAT_TRY(reader(stream).notes());
    LEAT_TRY(check_order(stream.cuts, notes));
    if (stream.is_adopted) recover_numbers(stream, notes);
    std::vector<Cut> known = std::exchange(stream.cuts, {});
    if (notes.empty()) return {};
    const std::uint64_t oldest = notes.front().position;
    std::uint64_t number =
        known.empty() ? stream.first_number : known.back().number + (known.back().note.position < oldest ? 2 : 1);
    std::erase_if(known, [oldest](const Cut& cut) { return cut.note.position < oldest; });
    std::erase_if(notes, [&](const ring::BlockNote& note) { return note.position < stream.forgotten; });
    for (const ring::BlockNote& note : notes)
        if (known.empty() || note.position > known.back().note.position) known.push_back({note, number++});
    stream.cuts = std::move(known);
    return {};
}

// A snapshot that comes may begin inside a block, where this one ends.
void Snapshots::forget() {
    add_streams();
    for (auto& [id, stream] : streams_) {
        (void)look(stream);
        if (stream.cuts.empty()) continue;
        stream.cuts.erase(stream.cuts.begin(), stream.cuts.end() - 1);
        stream.forgotten = stream.cuts.back().note.position;
        save(stream);
    }
}

std::vector<Snapshots::Piece> Snapshots::pieces() {
    std::vector<Piece> pieces;
    for (auto& [id, stream] : streams_)
        for (std::size_t i = 0; i + 1 < stream.cuts.size(); ++i)
            pieces.push_back({&stream, stream.cuts[i], stream.cuts[i + 1].note});
    return pieces;
}

std::uint64_t Snapshots::packet_size(const Piece& piece) {
    return ctf::kPacketHeaderSize + piece.to.position - piece.from.note.position;
}

// Up to one time for all streams, as far as packets allow.
Result<void> Snapshots::keep_newest(std::vector<Piece>& pieces, std::uint64_t max_size) {
    if (max_size == 0 || pieces.empty()) return {};
    // Those of one stream may end at the same time; the newest come first then, too.
    std::ranges::reverse(pieces);
    std::ranges::stable_sort(pieces, std::ranges::greater(), [](const Piece& piece) { return piece.to.timestamp; });
    std::uint64_t size = 0;
    const auto fits = [&](const Piece& piece) { return (size += packet_size(piece)) <= max_size; };
    const auto end = std::ranges::find_if_not(pieces, fits);
    if (end == pieces.begin())
        return refused("a snapshot of {} bytes has no room for its newest packet, of {} bytes", max_size,
                       packet_size(pieces.front()));
    pieces.erase(end, pieces.end());
    return {};
}

// What was overtaken by its writers meanwhile is left out. Where there is little memory, a batch is smaller.
Result<std::span<const Snapshots::Piece>> Snapshots::copy_batch(std::span<const Piece> pieces,
                                                                std::vector<Copied>& copied) const {
    std::uint64_t size = 0;
    std::size_t count = 0;
    try {
        for (; count < pieces.size() && size < kBatchSize; ++count) {
            const Piece& piece = pieces[count];
            Copied copy{.piece = piece, .records = {}};
            if (!reader(*piece.stream).copy(piece.from.note.position, piece.to.position, copy.records)) continue;
            size += copy.records.size();
            copied.push_back(std::move(copy));
        }
    } catch (const std::bad_alloc&) {
        if (copied.empty()) return fail(ErrorKind::kDiskFull, "there is no memory for a snapshot");
    }
    return pieces.subspan(count);
}

Result<SnapshotTotals> Snapshots::take(Output& output, std::uint64_t max_size, const Hooks& hooks) {
    SnapshotTotals totals;
    add_streams();
    const std::map<StreamId, Stream> before = streams_;
    for (auto& [id, stream] : streams_) {
        const auto looked = look(stream);
        if (looked) continue;
        give_up(stream);
        totals.quarantined.push_back(
            fmt::format("ring {}: {}: a traced program overwrote it", id.ring, looked.error().message));
    }
    std::vector<Piece> wanted = pieces();
    if (auto kept = keep_newest(wanted, max_size); !kept) {
        // No packet ends where this one would have: who goes on must not take that for known.
        streams_ = before;
        return tl::unexpected(std::move(kept).error());
    }
    for (auto& [id, stream] : streams_) save(stream);
    // The packets of a stream in order, whose oldest are the next to go.
    std::ranges::stable_sort(wanted, {},
                             [](const Piece& piece) { return std::pair(piece.stream->id, piece.from.note.position); });
    for (std::span<const Piece> left = wanted; !left.empty();) {
        std::vector<Copied> copied;
        left = LEAT_TRY(copy_batch(left, copied));
        LEAT_TRY(hooks.before_cut());
        for (const Copied& piece : copied) LEAT_TRY(write(piece, output, totals));
        LEAT_TRY(hooks.after_write());
    }
    return totals;
}

// Behind what is no record, nothing of the block is written. The next one begins where its note says.
Result<void> Snapshots::write(const Copied& copied, Output& output, SnapshotTotals& totals) {
    const auto& [stream, from, to] = copied.piece;
    const Source& source = sources_[stream->id.channel];
    const ring::RecordHeaderLayout& clock = source.walker->header();
    const ctf::RecordWalker::Part part =
        source.walker->walk_part(copied.records, ~std::size_t{0}, {from.note.timestamp, to.timestamp});
    const std::uint64_t expected = to.records - from.note.records;
    if (expected > part.records && expected <= copied.records.size() / ring::kMinRecordSize)
        totals.unreadable += expected - part.records;
    if (part.records == 0) return {};
    const bool is_of_cpu = stream->id.ring < source.rings->geometry().cpu_rings;
    const std::uint64_t bits = (ctf::kPacketHeaderSize + part.bytes) * 8;
    const std::uint64_t created = source.rings->created();
    const Packet packet{
        .stream = stream->id,
        .header = {.uuid = trace_uuid_,
                   .stream_id =
                       static_cast<std::uint32_t>(is_of_cpu ? source.stream_class_id : source.thread_stream_class_id),
                   .stream_instance_id = stream->id.ring,
                   .timestamp_begin = clock.cycles(std::max(from.note.timestamp, created)),
                   .timestamp_end = clock.cycles(std::max(to.timestamp, created)),
                   .content_size = bits,
                   .packet_size = bits,
                   .packet_seq_num = from.number,
                   .events_discarded = to.discarded,
                   .cpu_or_thread_ring = stream->id.ring - (is_of_cpu ? 0 : source.rings->geometry().cpu_rings)},
        .records = UntrustedBytes(copied.records).first(part.bytes),
        .events = part.records};
    LEAT_TRY(output.write_packet(packet));
    totals.events += part.records;
    totals.bytes += bits / 8;
    ++totals.packets;
    totals.begin = std::min(totals.begin, std::max(from.note.timestamp, created));
    totals.end = std::max(totals.end, to.timestamp);
    return {};
}

}  // namespace leat::consumer
