// A model of the rings of one or two channels in overwrite mode, and of the snapshots that are taken of them. Writers,
// programs that write over their rings, and an output that fails take random steps. The model knows which packets a
// snapshot must have, and reports anything else. Unit tests draw the steps from random numbers, a fuzz target from its
// input.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "consumer/snapshots.hpp"
#include "support/model.hpp"
#include "support/modelled_writers.hpp"

namespace leat::test {

// What is in a ring, and what was stored of it:
//
//             limit - size    known[0]   known[1]   known.back()        head        limit
//     | gone   | partly gone   | packet   | packet   | no packet yet     |           |
//
struct SnapshotRing : WrittenRing {
    struct KnownCut {
        std::uint64_t position;
        std::uint64_t number;
    };
    struct Stored {
        std::uint64_t number;
        std::uint64_t end;  // position
        std::string records;
    };

    // The writers.
    std::uint64_t limit = ring::block_size(ModelledChannel::kSize);
    std::deque<std::uint64_t> block_begins{0};  // positions
    std::uint64_t looked_at = 0;                // all records below this position
    std::uint64_t longest = 0;                  // record
    bool is_hostile = false;                    // its header was written over: nothing is known of it
    // The snapshots.
    std::vector<KnownCut> known{};
    std::vector<std::uint64_t> ends{};         // of snapshots: positions
    std::uint64_t forgotten = 0;               // all below this position
    std::map<std::uint64_t, Stored> stored{};  // packets, by the position where they begin
};

class SnapshotModel : public consumer::Output, private ModelledWriters<SnapshotRing> {
  public:
    explicit SnapshotModel(Choose choose, bool are_tiny = false)
        : ModelledWriters(std::move(choose), are_tiny, true),
          progress_((add_channels(kNever), *consumer::Progress::create(std::vector<std::uint32_t>(
                                               channels_.size(), kCpuRings + kThreadRings)))),
          snapshots_(sources(), ctf::Uuid{7}, &progress_) {}

    // Takes one random step.
    void step();
    // Takes a last snapshot. No step may follow.
    void finish() {
        fails_after_ = kNever;
        take(0);
    }

    // The first violation, in words; empty if there was none.
    [[nodiscard]] const std::string& violation() const { return violation_; }
    // Counts, to check that the steps achieve something.
    [[nodiscard]] std::uint64_t packets() const { return packets_; }
    [[nodiscard]] std::uint64_t again() const { return again_; }
    [[nodiscard]] std::uint64_t lost() const { return lost_; }
    [[nodiscard]] std::uint64_t left_out() const { return left_out_; }
    [[nodiscard]] std::uint64_t forgotten() const { return forgotten_; }

    // The output of the snapshots.
    Result<void> write_metadata(std::string_view) override { return {}; }
    Result<void> write_packet(const consumer::Packet& packet) override;

  private:
    // What a reader finds in a packet.
    struct Contents {
        std::string records;
        std::uint64_t events = 0;
        std::uint64_t lost = 0;
        bool is_written_over = false;
    };
    struct Piece {
        SnapshotRing* ring;
        SnapshotRing::KnownCut from;
        std::uint64_t to;     // position
        Contents contents{};  // before writers go on

        [[nodiscard]] std::uint64_t size() const { return ctf::kPacketHeaderSize + to - from.position; }
        [[nodiscard]] std::uint64_t end_time() const { return ring->cuts.at(to).time; }
    };

    [[nodiscard]] static bool is_in(const SnapshotRing& ring, std::uint64_t position) {
        return position >= ring.limit - std::min(ring.limit, kSize);
    }

    // Writers.
    void go_round();
    void write_large();
    void kill_in_new_block();
    void lie();
    void look_at_writers();
    void look_at_writer(SnapshotRing& ring);
    void begin_blocks(SnapshotRing& ring, std::uint64_t position, std::uint64_t end);

    // Snapshots.
    void take_any();
    void take_many();
    void take(std::uint64_t max_size);
    void forget();
    void begin_again();
    void know_cuts();
    void know_cuts(SnapshotRing& ring);
    [[nodiscard]] std::uint64_t oldest(const SnapshotRing& ring) const;
    [[nodiscard]] std::vector<Piece> pieces();
    bool keep_newest(std::vector<Piece>& pieces, std::uint64_t max_size);
    void leave_out_unreadable();
    void check_totals(const consumer::SnapshotTotals& totals);
    void check_packet(const consumer::Packet& packet, const Piece& piece);
    void check_any(const consumer::Packet& packet);
    void store(const Piece& piece, const Contents& contents);
    [[nodiscard]] Contents contents_of(const Piece& piece) const;

    consumer::Progress progress_;
    consumer::Snapshots snapshots_;
    std::deque<Piece> expected_{};  // of this snapshot
    std::uint64_t expected_events_ = 0;
    std::uint64_t expected_lost_ = 0;
    std::uint64_t fails_after_ = kNever;  // packets
    bool has_failed_ = false;
    std::uint64_t packets_ = 0;
    std::uint64_t again_ = 0;
    std::uint64_t lost_ = 0;
    std::uint64_t left_out_ = 0;
    std::uint64_t forgotten_ = 0;  // ends of snapshots, by those who went on
};

inline void SnapshotModel::step() {
    struct Step {
        std::uint64_t weight;
        void (*take)(SnapshotModel&);
    };
    static constexpr std::array kSteps{
        Step{80, [](SnapshotModel& model) { model.write_some(); }},
        Step{60, [](SnapshotModel& model) { model.take_any(); }},
        Step{40, [](SnapshotModel& model) { model.move_clock(); }},
        Step{30, [](SnapshotModel& model) { model.write_large(); }},
        Step{20, [](SnapshotModel& model) { model.write_late(); }},
        Step{20, [](SnapshotModel& model) { model.go_round(); }},
        Step{10, [](SnapshotModel& model) { model.claim_ring(); }},
        Step{10, [](SnapshotModel& model) { model.kill_writer(); }},
        Step{10, [](SnapshotModel& model) { model.kill_in_new_block(); }},
        Step{10, [](SnapshotModel& model) { model.discard(); }},
        Step{10, [](SnapshotModel& model) { model.break_record(); }},
        Step{10, [](SnapshotModel& model) { model.make_one_of_two(); }},
        Step{10, [](SnapshotModel& model) { model.forget(); }},
        Step{10, [](SnapshotModel& model) { model.begin_again(); }},
        Step{10, [](SnapshotModel& model) { model.snapshots_.touch_used(); }},
        Step{1, [](SnapshotModel& model) { model.lie(); }},
        Step{1, [](SnapshotModel& model) { model.take_many(); }},
    };
    ++steps_;
    any_of(kSteps).take(*this);
    look_at_writers();
}

// Writers -------------------------------------------------------------------------------------------------------------

// Once, or nearly.
inline void SnapshotModel::go_round() {
    SnapshotRing& ring = any_ring();
    const std::uint64_t end = ring.header->head + choose_(kSize + kSize / 8);
    for (int i = 0; i < 300 && ring.header->head < end && violation_.empty(); ++i) {
        write(ring, 4, make_payload(4, 300 + choose_(400)), now_);
        set_clock(now_ + choose_(1'000));
        look_at_writer(ring);
    }
}

inline void SnapshotModel::write_large() {
    write(any_ring(), 4, make_payload(4, choose_(ring::max_record_size(kSize) - 10)), now_);
}

// The writer has begun blocks for its record, and announced it.
inline void SnapshotModel::kill_in_new_block() {
    SnapshotRing& ring = any_ring();
    look_at_writer(ring);
    ring::RingHeader& header = *ring.header;
    const std::uint64_t head = header.head;
    const std::uint64_t time = header.last_timestamp;
    const bool is_announced = choose_(2) == 1;
    const std::uint64_t next_head = header.next_head;
    const std::uint64_t next_records = header.next_records;
    write(ring, 4, make_payload(4, choose_(ring::max_record_size(kSize) - 10)), now_);
    if (header.head == head || ring.is_hostile) return;
    --ring.committed;
    ring.pending.pop_back();
    begin_blocks(ring, head, header.head);
    ring.longest = std::max(ring.longest, header.head - head);
    header.head = head;
    header.last_timestamp = time;
    if (is_announced) return;
    header.next_head = next_head;
    header.next_records = next_records;
}

// A program writes over the header of its ring.
inline void SnapshotModel::lie() {
    SnapshotRing& ring = any_ring();
    ring::RingHeader& header = *ring.header;
    const std::array<std::uint64_t, 6> lies{0, 1, kSize, 1ULL << 40, kNever, choose_(kNever)};
    const std::uint64_t value = lies[choose_(lies.size())];
    ring::BlockNote& note = header.blocks[choose_(ring::kBlockNotes)];
    const std::array<std::uint64_t*, 9> words{&header.head,      &header.limit,        &header.last_timestamp,
                                              &header.next_head, &header.next_records, &note.position,
                                              &note.timestamp,   &note.records,        &note.discarded};
    *words[choose_(words.size())] = value;
    ring.is_hostile = true;
    ring.pending.clear();
    // So that nobody computes with it.
    if (header.last_timestamp > now_) header.last_timestamp = start_;
}

inline void SnapshotModel::look_at_writers() {
    for (SnapshotRing& ring : rings_) look_at_writer(ring);
}

// What the notes must say, from what was written; and forgets what is gone.
inline void SnapshotModel::look_at_writer(SnapshotRing& ring) {
    if (ring.is_hostile) return ring.pending.clear();
    ring.cuts.try_emplace(0, WrittenRing::Cut{start_, 0});
    const auto is_new = [&ring](const WrittenRing::Record& record) { return record.position >= ring.looked_at; };
    for (auto record = std::ranges::find_if(ring.pending, is_new); record != ring.pending.end(); ++record) {
        begin_blocks(ring, record->position, record->end);
        ring.longest = std::max(ring.longest, record->end - record->position);
    }
    ring.looked_at = ring.header->head;
    if (ring.limit != ring.header->limit)
        violate("{}: the limit is {}, not {}", name_of(ring), ring.header->limit, ring.limit);
    while (!ring.pending.empty() && !is_in(ring, ring.pending.front().position)) ring.pending.pop_front();
    while (!is_in(ring, ring.block_begins.front())) ring.block_begins.pop_front();
}

inline void SnapshotModel::begin_blocks(SnapshotRing& ring, std::uint64_t position, std::uint64_t end) {
    for (; end + ring::kCopySlack > ring.limit; ring.limit += ring::block_size(kSize)) {
        if (ring.block_begins.back() != position) ring.block_begins.push_back(position);
        ring.cuts.try_emplace(position, WrittenRing::Cut{ring.header->last_timestamp, ring.discarded});
    }
}

// Snapshots -----------------------------------------------------------------------------------------------------------

inline void SnapshotModel::take_any() {
    if (is_one_in(8)) fails_after_ = choose_(4);
    const std::array<std::uint64_t, 4> max_size{0, choose_(400) + 1, choose_(20'000) + 1, choose_(4 * kSize) + 1};
    take(max_size[choose_(max_size.size())]);
    fails_after_ = kNever;
}

// More than anybody remembers.
inline void SnapshotModel::take_many() {
    for (std::size_t i = 0; i <= consumer::Progress::kMaxPlanned && violation_.empty(); ++i) {
        write_some();
        take(0);
    }
}

inline void SnapshotModel::take(std::uint64_t max_size) {
    look_at_writers();
    struct Before {
        std::vector<SnapshotRing::KnownCut> known;
        std::vector<std::uint64_t> ends;
        decltype(SnapshotRing::cuts) cuts;
    };
    std::vector<Before> before;
    for (const SnapshotRing& ring : rings_) before.push_back({ring.known, ring.ends, ring.cuts});
    know_cuts();
    std::vector<Piece> all = pieces();
    const bool is_hostile = std::ranges::any_of(rings_, &SnapshotRing::is_hostile);
    // What hostile rings take of it, nobody knows.
    if (is_hostile) max_size = 0;
    const bool has_room = keep_newest(all, max_size);
    for (Piece& piece : all) piece.contents = contents_of(piece);
    expected_.assign(all.begin(), all.end());
    expected_events_ = expected_lost_ = 0;
    has_failed_ = false;
    const auto taken = snapshots_.take(*this, max_size,
                                       {.before_cut = [this]() -> Result<void> {
                                            write_some();
                                            return {};
                                        },
                                        .after_write = []() -> Result<void> { return {}; }});
    if (taken.has_value() == (!has_room || has_failed_))
        violate("the snapshot says {}, room: {}, failed: {}", taken ? "yes" : taken.error().message, has_room,
                has_failed_);
    for (std::size_t i = 0; !has_room && i < before.size(); ++i) {
        rings_[i].known = before[i].known;
        rings_[i].ends = before[i].ends;
        rings_[i].cuts = before[i].cuts;
    }
    if (!taken) return;
    leave_out_unreadable();
    if (!expected_.empty())
        violate("{}: the packet at {} is missing", name_of(*expected_.front().ring), expected_.front().from.position);
    if (!is_hostile) check_totals(*taken);
}

inline void SnapshotModel::check_totals(const consumer::SnapshotTotals& totals) {
    if (!totals.quarantined.empty()) violate("quarantined: {}", totals.quarantined.front());
    if (totals.events != expected_events_ || totals.unreadable != expected_lost_)
        violate("{} events and {} unreadable, not {} and {}", totals.events, totals.unreadable, expected_events_,
                expected_lost_);
}

inline void SnapshotModel::forget() {
    look_at_writers();
    know_cuts();
    snapshots_.forget();
    for (SnapshotRing& ring : rings_) {
        if (ring.known.empty()) continue;
        ring.forgotten = ring.known.back().position;
        ring.known.erase(ring.known.begin(), ring.known.end() - 1);
    }
}

// The host is killed, and another one goes on. It knows where the last snapshots ended, and looks at nothing that is
// older than those.
inline void SnapshotModel::begin_again() {
    if (std::ranges::any_of(rings_, &SnapshotRing::is_hostile)) return;
    snapshots_ = consumer::Snapshots(sources(), ctf::Uuid{7}, &progress_);
    for (SnapshotRing& ring : rings_) {
        if (ring.known.empty()) continue;
        constexpr std::size_t kEnds = consumer::Progress::kMaxPlanned - 1;
        if (ring.ends.size() > kEnds) {
            ring.forgotten = std::max(ring.forgotten, ring.ends[ring.ends.size() - kEnds - 1]);
            ++forgotten_;
        }
        const std::uint64_t end = ring.known.back().position;
        std::erase_if(ring.known, [&](const SnapshotRing::KnownCut& cut) {
            return cut.position != end && cut.position < ring.forgotten;
        });
    }
}

inline void SnapshotModel::know_cuts() {
    for (SnapshotRing& ring : rings_)
        if (!ring.is_hostile) know_cuts(ring);
}

inline std::uint64_t SnapshotModel::oldest(const SnapshotRing& ring) const {
    return *std::ranges::find_if(ring.block_begins, [&](std::uint64_t begin) { return is_in(ring, begin); });
}

// Packets that were known before stay what they were. What came since is cut at the blocks, and at the end.
inline void SnapshotModel::know_cuts(SnapshotRing& ring) {
    const std::uint64_t head = ring.header->head;
    if (head == 0) return;
    ring.cuts.try_emplace(head, WrittenRing::Cut{ring.header->last_timestamp, ring.discarded});
    const std::uint64_t oldest = this->oldest(ring);
    const std::uint64_t kept = head - oldest;
    if (kept + 2 * ring.longest < std::min(head, kSize / 8 * 7))
        violate("{}: only {} bytes are left of {}", name_of(ring), kept, head);
    const bool has_gap = !ring.known.empty() && ring.known.back().position < oldest;
    std::uint64_t next = ring.known.empty() ? 0 : ring.known.back().number + (has_gap ? 2 : 1);
    if (ring.ends.empty() || ring.ends.back() != head) ring.ends.push_back(head);
    std::erase_if(ring.known, [oldest](const SnapshotRing::KnownCut& cut) { return cut.position < oldest; });
    const auto add = [&](std::uint64_t position) {
        if (position >= ring.forgotten && (ring.known.empty() || position > ring.known.back().position))
            ring.known.push_back({position, next++});
    };
    for (const std::uint64_t begin : ring.block_begins)
        if (begin >= oldest) add(begin);
    add(head);
}

// In the order of streams and positions.
inline std::vector<SnapshotModel::Piece> SnapshotModel::pieces() {
    std::map<consumer::StreamId, SnapshotRing*> ordered;
    for (SnapshotRing& ring : rings_)
        if (!ring.is_hostile) ordered.emplace(ring.id, &ring);
    std::vector<Piece> pieces;
    for (const auto& [id, ring] : ordered)
        for (std::size_t i = 0; i + 1 < ring->known.size(); ++i)
            pieces.push_back({ring, ring->known[i], ring->known[i + 1].position});
    return pieces;
}

// As many as there is room for, of those that end last. Of one stream, none that is newer than one that is there is
// left out. Whether there is room for one.
inline bool SnapshotModel::keep_newest(std::vector<Piece>& pieces, std::uint64_t max_size) {
    if (max_size == 0 || pieces.empty()) return true;
    std::vector<std::size_t> order(pieces.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = order.size() - 1 - i;
    std::ranges::stable_sort(order, std::ranges::greater(), [&](std::size_t i) { return pieces[i].end_time(); });
    std::vector<bool> is_kept(pieces.size());
    std::uint64_t size = 0;
    for (const std::size_t i : order) {
        if ((size += pieces[i].size()) > max_size) break;
        is_kept[i] = true;
    }
    std::vector<Piece> kept;
    for (std::size_t i = 0; i < pieces.size(); ++i)
        if (is_kept[i]) kept.push_back(pieces[i]);
    left_out_ += pieces.size() - kept.size();
    pieces = std::move(kept);
    return !pieces.empty();
}

// Of packets that nobody can read from their first record on, there is nothing.
inline void SnapshotModel::leave_out_unreadable() {
    for (; !expected_.empty() && expected_.front().contents.events == 0; expected_.pop_front())
        expected_lost_ += expected_.front().contents.lost;
}

inline Result<void> SnapshotModel::write_packet(const consumer::Packet& packet) {
    if (fails_after_ == 0) {
        has_failed_ = true;
        return fail(ErrorKind::kIo, "no space left on device");
    }
    if (fails_after_ != kNever) --fails_after_;
    check_any(packet);
    SnapshotRing* const ring = find(packet.stream);
    if (ring == nullptr) {
        violate("a packet of ring {}.{}", packet.stream.channel, packet.stream.ring);
        return {};
    }
    if (ring->is_hostile) return {};
    leave_out_unreadable();
    if (expected_.empty() || expected_.front().ring != ring) {
        violate("{}: one packet more, number {}", name_of(*ring), packet.header.packet_seq_num);
        return {};
    }
    const Piece piece = expected_.front();
    expected_.pop_front();
    check_packet(packet, piece);
    return {};
}

// Also of rings whose programs write over them.
inline void SnapshotModel::check_any(const consumer::Packet& packet) {
    ++packets_;
    const ctf::PacketHeader& header = packet.header;
    if (header.content_size != (ctf::kPacketHeaderSize + packet.records.size()) * 8)
        violate("{} bytes of records, {} bits in all", packet.records.size(), header.content_size);
    if (header.timestamp_end < header.timestamp_begin)
        violate("a packet from {} to {}", header.timestamp_begin, header.timestamp_end);
    const ctf::RecordWalker::Walked walked = channels_[packet.stream.channel].walker.walk(packet.records);
    if (walked.bytes != packet.records.size() || walked.records != packet.events)
        violate("{} events, {} can be read", packet.events, walked.records);
}

inline void SnapshotModel::check_packet(const consumer::Packet& packet, const Piece& piece) {
    const SnapshotRing& ring = *piece.ring;
    const ctf::PacketHeader& header = packet.header;
    const std::string name = name_of(ring);
    if (header.packet_seq_num != piece.from.number)
        violate("{}: packet {} is number {}", name, piece.from.number, header.packet_seq_num);
    const ring::RecordHeaderLayout& layout = channel_of(ring).layout;
    if (header.timestamp_begin != layout.cycles(ring.cuts.at(piece.from.position).time) ||
        header.timestamp_end != layout.cycles(piece.end_time()))
        violate("{}: packet {} is from {} to {}", name, header.packet_seq_num, header.timestamp_begin,
                header.timestamp_end);
    if (header.events_discarded != ring.cuts.at(piece.to).discarded)
        violate("{}: packet {} tells of {} discarded", name, header.packet_seq_num, header.events_discarded);
    const bool is_of_cpu = ring.id.ring < kCpuRings;
    if (header.stream_id != 2 * ring.id.channel + (is_of_cpu ? 0 : 1) ||
        header.cpu_or_thread_ring != (is_of_cpu ? ring.id.ring : ring.id.ring - kCpuRings))
        violate("{}: packet of stream class {}, ring {}", name, header.stream_id, header.cpu_or_thread_ring);
    const Contents& contents = piece.contents;
    const auto* const bytes = reinterpret_cast<const char*>(packet.records.data());  // NOLINT(*-reinterpret-cast)
    if (std::string_view(bytes, packet.records.size()) != contents.records)
        violate("{}: packet {} at {} has {} bytes of records, which are not the {} that were written", name,
                header.packet_seq_num, piece.from.position, packet.records.size(), contents.records.size());
    if (packet.events != contents.events) violate("{}: {} events, not {}", name, packet.events, contents.events);
    expected_events_ += contents.events;
    expected_lost_ += contents.lost;
    lost_ += contents.lost;
    store(piece, contents);
}

// Packets of several snapshots are the same or have nothing in common; their numbers tell whether one is missing.
inline void SnapshotModel::store(const Piece& piece, const Contents& contents) {
    auto& stored = piece.ring->stored;
    const std::uint64_t number = piece.from.number;
    const auto [at, is_new] =
        stored.try_emplace(piece.from.position, SnapshotRing::Stored{number, piece.to, contents.records});
    const std::string name = name_of(*piece.ring);
    if (!is_new) {
        ++again_;
        if (at->second.number != number || at->second.end != piece.to)
            violate("{}: packet {} was {} before", name, number, at->second.number);
        if (!contents.is_written_over && at->second.records != contents.records)
            violate("{}: packet {} has changed", name, number);
        return;
    }
    const auto check = [&](const auto& first, const auto& second) {
        const bool is_next = first.second.end == second.first;
        const std::uint64_t step = second.second.number - first.second.number;
        if (first.second.end > second.first || (is_next ? step != 1 : step < 2 || step > kNever / 2))
            violate("{}: after packet {} up to {}, packet {} from {}", name, first.second.number, first.second.end,
                    second.second.number, second.first);
    };
    if (at != stored.begin()) check(*std::prev(at), *at);
    if (std::next(at) != stored.end()) check(*at, *std::next(at));
}

inline SnapshotModel::Contents SnapshotModel::contents_of(const Piece& piece) const {
    Contents contents;
    const auto& pending = piece.ring->pending;
    const auto begin = std::ranges::lower_bound(pending, piece.from.position, {}, &WrittenRing::Record::position);
    bool is_broken = false;
    for (auto record = begin; record != pending.end() && record->position < piece.to; ++record) {
        is_broken |= record->is_broken;
        contents.is_written_over |= is_broken || record->count > 1;
        contents.lost += record->count - (is_broken ? 0 : 1);
        if (is_broken) continue;
        const char* const at = piece.ring->bytes_at(record->position, kSize);
        contents.records.append(at, record->header_size()).append(record->payload);
        ++contents.events;
    }
    return contents;
}

// The same with tiny headers.
class TinySnapshotModel final : public SnapshotModel {
  public:
    explicit TinySnapshotModel(Choose choose) : SnapshotModel(std::move(choose), true) {}
};

}  // namespace leat::test
