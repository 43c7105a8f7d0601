// A model of rings and their consumer. Writers, consumer and output take random steps, including faults. The model
// knows what must come out, and reports anything else. Unit tests draw the steps from random numbers, a fuzz target
// from its input.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "consumer/consumer.hpp"
#include "ring/ring_set.hpp"
#include "ring/rseq_writer.hpp"
#include "ring/thread_writer.hpp"
#include "support/model.hpp"

namespace leat::test {

// One ring's contents, and what became of them.
struct ModelledRing {
    // One record as it lies in the ring; or two, if a program has made one of them.
    struct Record {
        std::uint64_t position;  // in the ring
        std::uint64_t end;
        std::uint64_t time;  // ns; as the writer stamped it
        std::uint32_t id;
        std::string payload;  // begins with the context
        std::uint64_t count = 1;
        bool is_broken = false;  // nobody can tell where it ends

        [[nodiscard]] std::uint64_t header_size() const { return end - position - payload.size(); }
    };
    struct UnstoredPacket {
        std::uint64_t sequence_number;
        std::uint64_t begin;  // position of its records
        UntrustedBytes records;
        std::vector<std::byte> copy;
    };

    ring::RingHeader* header;
    std::uint32_t index;

    // The writers.
    std::uint64_t claimed_at = 0;  // ns; no record is older
    std::uint64_t committed = 0;
    std::uint64_t discarded = 0;
    // The consumer.
    std::deque<Record> pending{};  // committed, but neither delivered nor lost
    std::uint64_t consumed = 0;    // position after all that was delivered or lost
    std::uint64_t sampled = 0;     // head when this drain began
    std::uint64_t delivered = 0;
    std::uint64_t lost = 0;            // unreadable
    std::uint64_t begin = 0;           // ns; of the next packet
    std::uint64_t end = 0;             // ns; of the last packet
    std::uint64_t known_discards = 0;  // discarded and `lost` when this drain began: the most that a packet may tell
    bool is_held_up = false;           // the consumer waits for the output, not for more records
    // The output.
    bool is_announced = false;
    bool was_refused = false;   // in this drain
    bool lacks_packet = false;  // in this part
    std::uint64_t packets = 0;
    std::uint64_t told_discards = 0;
    std::uint64_t beacon = 0;
    std::deque<UnstoredPacket> unstored{};

    [[nodiscard]] char* bytes_at(std::uint64_t position, std::uint64_t size) const {
        return reinterpret_cast<char*>(header) + ring::kPageSize + (position & (size - 1));  // NOLINT
    }
    [[nodiscard]] bool has_sampled() const { return !pending.empty() && pending.front().position < sampled; }
    [[nodiscard]] bool is_full() const { return unstored.size() >= consumer::Consumer::kMaxUnstored; }
    // Whether the drain leaves records that it looked at. If it reaches records that begin with a broken one, it gives
    // them up.
    [[nodiscard]] bool holds_back() const {
        return has_sampled() && (is_full() || was_refused || !pending.front().is_broken);
    }
};

class ConsumerModel final : public consumer::Output {
  public:
    explicit ConsumerModel(Choose choose);

    // Takes one random step.
    void step();
    // Ends the session without further faults, and checks that everything is accounted for. No step may follow.
    void finish();

    // The first violation, in words; empty if there was none.
    [[nodiscard]] const std::string& violation() const { return violation_; }
    // Counts, to check that the steps achieve something.
    [[nodiscard]] std::uint64_t delivered() const { return sum(&ModelledRing::delivered); }
    [[nodiscard]] std::uint64_t lost() const { return sum(&ModelledRing::lost); }
    [[nodiscard]] std::uint64_t late() const { return late_; }

    // The consumer's output.
    Result<void> write_metadata(std::string_view) override { return {}; }
    Result<void> write_packet(const consumer::Packet& packet) override;
    Result<void> announce(std::span<const std::uint64_t> ids) override;
    void write_beacon(std::uint64_t id, std::uint64_t timestamp) override;
    void cycle_done(std::uint64_t horizon) override;
    [[nodiscard]] std::uint64_t stored(std::uint64_t id) const override;
    [[nodiscard]] std::uint64_t part() const override { return part_; }

  private:
    static constexpr std::uint64_t kSize = ring::kMinRingSize;
    static constexpr std::uint32_t kCpuRings = 2;
    static constexpr std::uint32_t kThreadRings = 2;
    static constexpr std::size_t kContextSize = 4;
    static constexpr std::uint64_t kNever = ~std::uint64_t{0};
    static constexpr std::uint64_t kUnknownId = 9;
    static constexpr std::uint64_t kUnknownLargeId = 77;

    template <class... Arguments>
    void violate(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
        if (violation_.empty())
            violation_ = fmt::format("step {}: {}", steps_, fmt::format(text, std::forward<Arguments>(arguments)...));
    }
    [[nodiscard]] std::uint64_t sum(std::uint64_t ModelledRing::*member) const {
        std::uint64_t sum = 0;
        for (const ModelledRing& ring : rings_) sum += ring.*member;
        return sum;
    }
    [[nodiscard]] bool is_one_in(std::uint64_t count) { return choose_(count) == count - 1; }

    [[nodiscard]] ctf::RecordWalker make_walker() const;
    [[nodiscard]] consumer::Consumer::Parameters parameters();
    [[nodiscard]] std::uint64_t horizon() const;

    // Writers.
    void move_clock();
    void set_clock(std::uint64_t now);
    ModelledRing& any_ring();
    void claim_ring();
    void write_some();
    void write_any(ModelledRing& ring, std::uint64_t time);
    void write_late();
    void write(ModelledRing& ring, std::uint32_t id, std::string payload, std::uint64_t time);
    [[nodiscard]] std::string make_payload(std::uint32_t id, std::size_t length);
    void kill_writer();
    void discard();
    void break_record();
    void make_one_of_two();

    // Consumer.
    void drain();
    void begin_drain();
    void find_claimed_rings();
    void end_drain(bool is_drained);
    void consume_sample(ModelledRing& ring);
    Result<void> before_cut();
    void write_meanwhile();
    void check_room();
    void check_bells();
    void check_balance();

    // Output.
    void refuse();
    void begin_part();
    void store_some();
    void store(ModelledRing& ring, std::size_t packets);
    void check_bounds(const ModelledRing& ring, const ctf::PacketHeader& header);
    void check_records(ModelledRing& ring, const consumer::Packet& packet);
    std::uint64_t check_record(ModelledRing& ring, UntrustedBytes& rest, std::uint64_t begin, std::uint64_t previous);

    Choose choose_;
    std::uint64_t steps_ = 0;
    std::string violation_;

    ring::HeaderKind kind_;
    ring::RecordHeaderLayout layout_;
    std::uint64_t start_;  // ns
    std::uint64_t now_;
    ring::ClockPage clock_{};
    ring::RingSet set_;
    ring::RingMap map_;
    std::vector<ModelledRing> rings_;  // the rings of CPUs, and those that threads have claimed
    bool has_rung_ = false;            // since the last drain began
    bool has_rung_in_vain_ = false;    // since then
    bool is_bell_missed_ = false;      // whether a writer during the last drain may have missed it
    std::uint64_t late_ = 0;
    std::uint64_t payloads_ = 0;

    bool is_followed_;
    bool lags_ = false;  // packets are not stored at once
    std::uint64_t part_ = 0;
    std::uint64_t begun_part_ = 0;             // by the consumer
    std::uint64_t refusals_ = 0;               // how many future packets are refused
    std::uint64_t accepted_ = 0;               // how many packets are accepted before those
    std::uint64_t newest_end_ = 0;             // of all packets
    std::uint64_t refused_announcements_ = 0;  // how many future announcements are refused
    bool has_no_metadata_ = false;             // fails the metadata before the next cut
    bool is_cut_reached_ = false;              // in this drain
    std::size_t known_rings_ = 0;              // known to the consumer
    std::uint64_t consumer_now_ = 0;           // ns; when this drain looked at the clock
    bool is_ending_ = false;
    bool is_last_drain_good_ = true;
    std::uint64_t told_horizon_ = 0;
    std::uint64_t last_horizon_ = 0;  // of the last drain that succeeded, told or not

    ctf::RecordWalker walker_;
    consumer::Consumer::Parameters parameters_;
    consumer::Consumer consumer_;
};

inline ConsumerModel::ConsumerModel(Choose choose)
    : choose_(std::move(choose)),
      kind_(choose_(2) == 0 ? ring::HeaderKind::kCompact : ring::HeaderKind::kLarge),
      layout_(ring::header_layout(kind_)),
      start_(std::array<std::uint64_t, 4>{1'000'000, (1ULL << 32) - 5'000, 3'600'000'000'000,
                                          (1ULL << 62) - 7}[choose_(4)]),
      now_(start_),
      set_(*ring::RingSet::create({.ring_size = kSize, .cpu_rings = kCpuRings, .thread_rings = kThreadRings}, start_)),
      map_{.base = set_.rings(),
           .stride = ring::map_stride(kSize),
           .mask = kSize - 1,
           .clock = &clock_,
           .rseq_offset = 0,
           .cpu_ring_count = kCpuRings,
           .thread_ring_count = kThreadRings,
           .form = ring::header_form(kind_)},
      is_followed_(choose_(2) == 1),
      walker_(make_walker()),
      parameters_(parameters()),
      consumer_(set_, walker_, *this, parameters_) {
    clock_.source = ring::ClockSource::kTsc;
    set_clock(start_);
    rings_.reserve(kCpuRings + kThreadRings);  // a writer may claim one while another is in use
    for (std::uint32_t index = 0; index < kCpuRings; ++index)
        rings_.push_back({.header = map_.ring(index), .index = index, .claimed_at = start_, .begin = start_});
    if (!is_followed_) return;
    begin_drain();
    if (!consumer_.announce_cpu_rings()) violate("the rings of CPUs cannot be announced");
}

inline ctf::RecordWalker ConsumerModel::make_walker() const {
    const auto integer = [](unsigned bits) { return ctf::IntegerClass{.size = bits}; };
    ctf::RecordWalker walker(layout_, kContextSize);
    const auto add = [&walker](std::uint64_t id, std::vector<ctf::StructMember> fields) {
        ctf::EventClass event_class{.id = id, .name = "model:event"};
        event_class.fields = ctf::StructClass{std::move(fields)};
        walker.add(event_class);
    };
    add(0, {});
    add(1, {{"_a", integer(32)}, {"_b", integer(64)}});
    add(2, {{"_s", ctf::StringClass{}}, {"_a", integer(8)}});
    add(3, {{"_n", integer(8)}, {"_v", ctf::SequenceClass{ctf::FieldClass(integer(32)), {"_n"}}}});
    add(4, {{"_n", integer(32)}, {"_v", ctf::SequenceClass{ctf::FieldClass(integer(8)), {"_n"}}}});
    // Has as many bytes as two records of class 1, the second with a short header.
    add(5, {{"_v", ctf::ArrayClass{ctf::FieldClass(integer(8)), 12 + layout_.short_size + kContextSize + 12}}});
    add(40, {{"_s", ctf::StringClass{}}, {"_t", ctf::StringClass{}}});
    return walker;
}

inline consumer::Consumer::Parameters ConsumerModel::parameters() {
    const std::array<std::uint64_t, 4> wake_after{0, 100, kSize / 2, kNever};
    const std::array<std::size_t, 4> max_packet_size{~std::size_t{0}, ctf::kPacketHeaderSize + 1,
                                                     ctf::kPacketHeaderSize + 60, 4096};
    return {.trace_uuid = {7},
            .stream_class_id = 0,
            .thread_stream_class_id = 1,
            .wake_after = wake_after[choose_(wake_after.size())],
            .clock = &clock_,
            .max_packet_size = max_packet_size[choose_(max_packet_size.size())],
            .before_cut = [this] { return before_cut(); }};
}

inline void ConsumerModel::step() {
    struct Step {
        std::uint64_t weight;
        void (ConsumerModel::*take)();
    };
    static constexpr std::array kSteps{
        Step{8, &ConsumerModel::write_some},   Step{7, &ConsumerModel::drain},
        Step{4, &ConsumerModel::move_clock},   Step{3, &ConsumerModel::write_late},
        Step{2, &ConsumerModel::store_some},   Step{1, &ConsumerModel::claim_ring},
        Step{1, &ConsumerModel::kill_writer},  Step{1, &ConsumerModel::discard},
        Step{1, &ConsumerModel::break_record}, Step{1, &ConsumerModel::make_one_of_two},
        Step{1, &ConsumerModel::refuse},       Step{1, &ConsumerModel::begin_part},
    };
    std::uint64_t all = 0;
    for (const Step& step : kSteps) all += step.weight;
    ++steps_;
    std::uint64_t chosen = choose_(all);
    for (const Step& step : kSteps) {
        if (chosen < step.weight) {
            (this->*step.take)();
            break;
        }
        chosen -= step.weight;
    }
    check_room();
    check_bells();
}

// Writers -------------------------------------------------------------------------------------------------------------

inline void ConsumerModel::move_clock() {
    const std::array<std::uint64_t, 9> steps{1,          500,        2'000,      1'500'000,        120'000'000,
                                             1ULL << 26, 1ULL << 27, 1ULL << 32, 3'600'000'000'000};
    set_clock(now_ + steps[choose_(steps.size())] - choose_(2));
}

inline void ConsumerModel::set_clock(std::uint64_t now) {
    now_ = now;
    clock_.lines[0] = {.tsc_base = 0, .ns_base = now, .multiplier = 0, .unused = 0};
}

inline ModelledRing& ConsumerModel::any_ring() { return rings_[choose_(rings_.size())]; }

inline void ConsumerModel::claim_ring() {
    const auto index = static_cast<std::uint32_t>(rings_.size());
    if (index == kCpuRings + kThreadRings) return;
    set_.header().thread_rings_used = index + 1 - kCpuRings;
    rings_.push_back({.header = map_.ring(index), .index = index, .claimed_at = now_, .begin = start_});
}

inline void ConsumerModel::write_some() {
    ModelledRing& ring = any_ring();
    for (std::uint64_t left = choose_(6) + 1; left != 0; --left) {
        write_any(ring, now_);
        if (is_one_in(4)) set_clock(now_ + choose_(1'000));
    }
}

// A record that may have been stamped before the consumer read the clock is committed now.
inline void ConsumerModel::write_late() {
    ModelledRing& ring = any_ring();
    for (std::uint64_t left = choose_(4) + 1; left != 0; --left) {
        const std::uint64_t oldest = std::max(ring.header->last_timestamp, ring.claimed_at);
        const std::uint64_t most = now_ - oldest;
        const std::uint64_t before = choose_(2) == 0 ? choose_(3'000) : choose_(most + 1);
        write_any(ring, now_ - std::min(before, most));
    }
}

inline void ConsumerModel::write_any(ModelledRing& ring, std::uint64_t time) {
    const std::array<std::uint32_t, 8> ids{1, 1, 1, 0, 2, 3, 4, 40};
    const std::uint32_t id = ids[choose_(ids.size())];
    const std::uint64_t length = id == 4 && is_one_in(4) ? choose_(ring::max_record_size(kSize) - 10) : choose_(40);
    write(ring, id, make_payload(id, length), time);
}

// The bytes differ between records.
inline std::string ConsumerModel::make_payload(std::uint32_t id, std::size_t length) {
    const auto filler = static_cast<char>('!' + payloads_++ % 90);
    const std::string text = std::string(length, filler) + '\0';
    std::string payload(kContextSize, static_cast<char>(~filler));
    if (id == 1) payload += std::string(12, filler);
    if (id == 2) payload += text + filler;
    if (id == 3) payload += static_cast<char>(length) + std::string(4 * length, filler);
    if (id == 4) {
        const auto size = static_cast<std::uint32_t>(length);
        payload.append(reinterpret_cast<const char*>(&size), sizeof size);  // NOLINT(*-reinterpret-cast)
        payload += std::string(length, filler);
    }
    if (id == 40) payload += text + text;
    return payload;
}

// Writes as the tracer does: a writer that meets the consumer's request to be woken restores the limit, rings, and
// writes again.
inline void ConsumerModel::write(ModelledRing& ring, std::uint32_t id, std::string payload, std::uint64_t time) {
    const std::string staged = payload + std::string(ring::kCopySlack, '~');
    const std::uint64_t position = ring.header->head;
    const ring::RecordWriter writer{
        .map = map_, .context_size = 0, .system_time = 0, .not_written = nullptr, .channel = 0, .contexts = {}};
    const auto try_to_write = [&] {
        return ring::thread_write(writer, *ring.header, id, staged.data(), payload.size(), time);
    };
    ring::WriteOutcome outcome = try_to_write();
    if (outcome == ring::WriteOutcome::kNoRoom && ring.header->limit < ring.header->tail + kSize) {
        ring.header->limit = ring.header->tail + kSize;
        has_rung_ = true;
        outcome = try_to_write();
        // The ring was for nothing. Another writer may find the bell unarmed until the consumer arms it again, so hosts
        // also drain periodically.
        if (outcome == ring::WriteOutcome::kNoRoom) has_rung_in_vain_ = true;
    }
    if (outcome == ring::WriteOutcome::kNoRoom) {
        ++ring.header->discarded[static_cast<std::uint32_t>(ring::DiscardReason::kRingFull)];
        ++ring.discarded;
        return;
    }
    if (outcome != ring::WriteOutcome::kWritten) return violate("a writer cannot write");
    ++ring.committed;
    ring.pending.push_back({.position = position,
                            .end = ring.header->head,
                            .time = ring.header->last_timestamp,
                            .id = id,
                            .payload = std::move(payload),
                            .is_broken = id == kUnknownId || id == kUnknownLargeId});
}

// The writer announced a record and was killed before it could commit. There may be anything beyond head.
inline void ConsumerModel::kill_writer() {
    ring::RingHeader& header = *any_ring().header;
    const std::uint64_t size = 5 + choose_(100);
    if (header.head + size + ring::kCopySlack > header.limit) return;
    header.next_records = ring::committed_records(header.head, header.next_head, header.next_records) + 1;
    header.next_head = header.head + size;
    for (std::uint64_t i = 0; i < size; ++i) *ModelledRing{&header, 0}.bytes_at(header.head + i, kSize) = '?';
}

inline void ConsumerModel::discard() {
    ModelledRing& ring = any_ring();
    const std::uint64_t count = choose_(5);
    ring.header->discarded[choose_(ring::kDiscardReasons)] += count;
    ring.discarded += count;
}

// Commits a record of an unknown class, or one that its program overwrites before the consumer looks.
inline void ConsumerModel::break_record() {
    ModelledRing& ring = any_ring();
    const std::uint64_t how = choose_(4);
    if (how == 0 || ring.pending.empty()) {
        const std::uint32_t id = choose_(2) == 0 ? kUnknownId : kUnknownLargeId;
        return write(ring, id, make_payload(1, 0), now_);
    }
    ModelledRing::Record& record = ring.pending[choose_(ring.pending.size())];
    if (record.is_broken) return;
    record.is_broken = true;
    char* const at = ring.bytes_at(record.position, kSize);
    const bool is_extended = record.header_size() != layout_.short_size;
    if (is_extended && how == 1) {
        const std::uint64_t lie = record.position == 0 ? kNever : choose_(2) - 1;  // all ones, or 0
        std::memcpy(at + layout_.extended_time_offset(), &lie, sizeof lie);
    } else if (is_extended) {
        std::memcpy(at + layout_.tag_size, &kUnknownLargeId, 4);
    } else if (record.id == 4 && how == 2) {
        std::memset(at + layout_.short_size + kContextSize, 0xff, 4);
    } else {
        std::uint16_t begin = 0;
        std::memcpy(&begin, at, sizeof begin);
        begin = static_cast<std::uint16_t>((begin & ~layout_.all_ones()) | kUnknownId);
        std::memcpy(at, &begin, sizeof begin);
    }
}

// Two records of the same time become one. Only their number shows that something is wrong.
inline void ConsumerModel::make_one_of_two() {
    ModelledRing& ring = any_ring();
    for (std::uint64_t left = choose_(12) + 2; left != 0; --left) write(ring, 1, make_payload(1, 0), now_);
    for (std::size_t i = 1; i < ring.pending.size(); ++i) {
        ModelledRing::Record& first = ring.pending[i - 1];
        const ModelledRing::Record& second = ring.pending[i];
        const auto is_fit = [this](const ModelledRing::Record& record) {
            return record.id == 1 && !record.is_broken && record.header_size() == layout_.short_size;
        };
        if (!is_fit(first) || !is_fit(second) || first.time != second.time || is_one_in(3)) continue;
        char* const at = ring.bytes_at(first.position, kSize);
        *at = static_cast<char>((*at & ~static_cast<int>(ring::kCompactHeader.all_ones())) | 5);
        first.id = 5;
        first.end = second.end;
        first.count += second.count;
        first.payload.assign(at + layout_.short_size, first.end - first.position - layout_.short_size);
        ring.pending.erase(ring.pending.begin() + static_cast<std::ptrdiff_t>(i));
    }
}

// Consumer ------------------------------------------------------------------------------------------------------------

inline void ConsumerModel::drain() {
    begin_drain();
    const std::uint64_t refusals = refusals_ + refused_announcements_ + (has_no_metadata_ ? 1 : 0);
    const bool is_drained = consumer_.drain().has_value();
    const bool is_refused = refusals != refusals_ + refused_announcements_ + (has_no_metadata_ ? 1 : 0);
    if (is_drained == is_refused) violate("the drain says {}, {}refused", is_drained, is_refused ? "" : "nothing was ");
    end_drain(is_drained);
}

inline void ConsumerModel::begin_drain() {
    is_cut_reached_ = true;
    find_claimed_rings();
    consumer_now_ = now_;
    has_rung_ = false;
    is_bell_missed_ = std::exchange(has_rung_in_vain_, false);
    for (ModelledRing& ring : rings_) {
        ring.sampled = ring.header->head;
        ring.known_discards = ring.discarded + ring.lost;
        ring.was_refused = false;
        if (!lags_) store(ring, ring.unstored.size());
    }
}

// The stream of a ring that was claimed in the meantime begins at the time that readers of the others may have reached.
inline void ConsumerModel::find_claimed_rings() {
    for (; known_rings_ < rings_.size(); ++known_rings_) rings_[known_rings_].begin = std::max(start_, last_horizon_);
}

inline void ConsumerModel::end_drain(bool is_drained) {
    is_last_drain_good_ = is_drained;
    if (is_drained) last_horizon_ = std::max(last_horizon_, horizon());
    if (is_cut_reached_) begun_part_ = part_;
    for (ModelledRing& ring : rings_) {
        if (is_cut_reached_ && !ring.was_refused && !ring.is_full()) consume_sample(ring);
        if (is_drained && !ring.has_sampled() && ring.index < known_rings_)
            ring.begin = std::max(ring.begin, horizon());
        if (is_drained && ring.lacks_packet && ring.unstored.empty())
            violate("ring {}: no packet begins part {}", ring.index, part_);
        if (!lags_) store(ring, ring.unstored.size());
        ring.is_held_up = ring.has_sampled() || ring.is_full();
        if (!lags_ && ring.header->tail != ring.consumed)
            violate("ring {}: its room up to {} does not come back, only up to {}", ring.index, ring.consumed,
                    ring.header->tail);
    }
    const bool has_consumed_all =
        std::none_of(rings_.begin(), rings_.end(), [](const ModelledRing& ring) { return ring.has_sampled(); });
    if (has_consumed_all && consumer_.unreadable() != lost())
        violate("{} unreadable, the consumer tells of {}", lost(), consumer_.unreadable());
}

// The drain had to take all that it looked at. Records after a broken one are lost with it, because nobody can tell
// where they begin.
inline void ConsumerModel::consume_sample(ModelledRing& ring) {
    if (!ring.has_sampled()) return;
    if (!ring.pending.front().is_broken) return violate("ring {}: a record is not delivered", ring.index);
    for (; ring.has_sampled(); ring.pending.pop_front()) {
        ring.lost += ring.pending.front().count;
        ring.begin = std::max(ring.begin, ring.pending.front().time);
    }
    ring.consumed = ring.sampled;
}

inline std::uint64_t ConsumerModel::horizon() const {
    const std::uint64_t margin = is_followed_ ? 1'000 : 1'000'000;
    return consumer_now_ > margin ? consumer_now_ - margin : 0;
}

inline Result<void> ConsumerModel::before_cut() {
    if (std::exchange(has_no_metadata_, false)) {
        is_cut_reached_ = false;
        return fail(ErrorKind::kIo, "no space left on device");
    }
    write_meanwhile();
    return {};
}

// Called after the consumer has looked at the rings twice and read the clock. Writers do not wait for it.
inline void ConsumerModel::write_meanwhile() {
    if (is_ending_) return;
    if (is_one_in(8)) move_clock();
    if (is_one_in(8)) claim_ring();
    if (is_one_in(4)) write_late();
}

// Writers may get room only where nobody reads any more.
inline void ConsumerModel::check_room() {
    for (const ModelledRing& ring : rings_) {
        const std::uint64_t most = ring.unstored.empty() ? ring.consumed : ring.unstored.front().begin;
        if (ring.header->tail > most)
            violate("ring {}: room up to {} is given back, that up to {} may be", ring.index, ring.header->tail, most);
    }
}

// A writer that leaves more than the consumer wants to wait for must have rung, unless the consumer comes by itself.
inline void ConsumerModel::check_bells() {
    if (has_rung_ || is_bell_missed_ || !is_last_drain_good_ || consumer_.wants_drain()) return;
    for (const ModelledRing& ring : rings_) {
        const std::uint64_t waiting = ring.header->head - ring.consumed;
        if (!ring.is_held_up && waiting > parameters_.wake_after)
            violate("ring {}: {} bytes wait, and nobody rang", ring.index, waiting);
    }
}

inline void ConsumerModel::finish() {
    is_ending_ = true;
    refusals_ = accepted_ = refused_announcements_ = 0;
    has_no_metadata_ = lags_ = false;
    const auto has_pending = [](const ModelledRing& ring) { return !ring.pending.empty(); };
    for (int i = 0; i < 10'000 && std::any_of(rings_.begin(), rings_.end(), has_pending); ++i) drain();
    begin_drain();
    refusals_ = choose_(3);
    for (int i = 0; i < 10 && refusals_ != 0; ++i) (void)consumer_.finish();
    refusals_ = 0;
    if (!consumer_.finish()) violate("it does not finish");
    check_balance();
}

inline void ConsumerModel::check_balance() {
    for (const ModelledRing& ring : rings_) {
        if (ring.committed != ring.delivered + ring.lost)
            violate("ring {}: {} committed, {} delivered + {} lost", ring.index, ring.committed, ring.delivered,
                    ring.lost);
        if (ring.told_discards != ring.discarded + ring.lost)
            violate("ring {}: {} discarded + {} lost, the packets tell of {}", ring.index, ring.discarded, ring.lost,
                    ring.told_discards);
    }
    if (consumer_.unreadable() != lost()) violate("{} lost, {} unreadable", lost(), consumer_.unreadable());
    if (consumer_.discarded() != sum(&ModelledRing::discarded) + lost())
        violate("the consumer tells of {} discarded", consumer_.discarded());
    const consumer::Totals& totals = consumer_.totals();
    if (totals.events != delivered() || totals.packets != sum(&ModelledRing::packets) || totals.left_in_rings != 0)
        violate("the totals are {} events, {} packets, {} left", totals.events, totals.packets, totals.left_in_rings);
    for (const std::string& why : consumer_.quarantined()) violate("{}", why);
}

// Output --------------------------------------------------------------------------------------------------------------

inline Result<void> ConsumerModel::write_packet(const consumer::Packet& packet) {
    const ctf::PacketHeader& header = packet.header;
    if (header.stream_instance_id >= rings_.size()) {
        violate("there is no ring {}", header.stream_instance_id);
        return {};
    }
    ModelledRing& ring = rings_[header.stream_instance_id];
    if (refusals_ > 0 && accepted_ > 0) {
        --accepted_;
    } else if (refusals_ > 0) {
        --refusals_;
        ring.was_refused = true;
        // Packets without records come before the cut, except those that begin a stream whose records are unreadable.
        is_cut_reached_ &= !packet.records.empty() || (ring.packets == 0 && begun_part_ == part_);
        return fail(ErrorKind::kIo, "no space left on device");
    }
    check_bounds(ring, header);
    ring.unstored.push_back({.sequence_number = header.packet_seq_num,
                             .begin = ring.consumed,
                             .records = packet.records,
                             .copy = {packet.records.begin(), packet.records.end()}});
    check_records(ring, packet);
    ring.begin = ring.end = header.timestamp_end;
    newest_end_ = std::max(newest_end_, header.timestamp_end);
    ring.told_discards = header.events_discarded;
    ring.lacks_packet = false;
    ++ring.packets;
    write_meanwhile();
    return {};
}

inline void ConsumerModel::check_bounds(const ModelledRing& ring, const ctf::PacketHeader& header) {
    if (!ring.is_announced) violate("ring {}: a packet, and it was not announced", ring.index);
    if (ring.is_full()) violate("ring {}: too many packets are not stored", ring.index);
    if (header.packet_seq_num != ring.packets)
        violate("ring {}: packet {} comes as the {}th", ring.index, header.packet_seq_num, ring.packets);
    if (header.timestamp_begin != ring.begin)
        violate("ring {}: a packet begins at {}, not {}", ring.index, header.timestamp_begin, ring.begin);
    if (header.timestamp_begin < ring.beacon)
        violate("ring {}: a packet begins at {}, the beacon was {}", ring.index, header.timestamp_begin, ring.beacon);
    const std::uint64_t most = is_ending_ ? ring.discarded + ring.lost : ring.known_discards;
    if (header.events_discarded < ring.told_discards || header.events_discarded > most)
        violate("ring {}: {} discarded, {} before, {} in all", ring.index, header.events_discarded, ring.told_discards,
                most);
    if (ring.packets == 0 && header.events_discarded != 0)
        violate("ring {}: the first packet tells of {} discarded", ring.index, header.events_discarded);
    const bool is_of_cpu = ring.index < kCpuRings;
    if (header.stream_id != (is_of_cpu ? 0 : 1) ||
        header.cpu_or_thread_ring != (is_of_cpu ? ring.index : ring.index - kCpuRings))
        violate("ring {}: packet of stream class {}, ring {}", ring.index, header.stream_id, header.cpu_or_thread_ring);
}

inline void ConsumerModel::check_records(ModelledRing& ring, const consumer::Packet& packet) {
    const ctf::PacketHeader& header = packet.header;
    std::vector<std::byte> bytes = packet.late_records;
    const UntrustedBytes others = packet.other_records();
    bytes.insert(bytes.end(), others.begin(), others.end());
    if (header.content_size != (ctf::kPacketHeaderSize + bytes.size()) * 8)
        violate("ring {}: {} bytes of records, {} bits in all", ring.index, bytes.size(), header.content_size);
    std::uint64_t time = header.timestamp_begin;
    std::uint64_t records = 0;
    for (UntrustedBytes rest(bytes); !rest.empty() && violation_.empty(); ++records)
        time = check_record(ring, rest, header.timestamp_begin, time);
    if (records != packet.events) violate("ring {}: {} events, not {}", ring.index, records, packet.events);
    if (records > 1 && ctf::kPacketHeaderSize + bytes.size() > parameters_.max_packet_size)
        violate("ring {}: a packet of {} bytes of records", ring.index, bytes.size());
    if (time != header.timestamp_end)
        violate("ring {}: a packet ends at {}, its last record at {}", ring.index, header.timestamp_end, time);
}

// Decodes a record as a reader does, checks it, and returns its time.
inline std::uint64_t ConsumerModel::check_record(ModelledRing& ring, UntrustedBytes& rest, std::uint64_t begin,
                                                 std::uint64_t previous) {
    if (!ring.has_sampled() || ring.pending.front().is_broken) {
        violate("ring {}: a record that nobody wrote", ring.index);
        return previous;
    }
    const ModelledRing::Record& record = ring.pending.front();
    const std::size_t size = record.end - record.position;
    const std::size_t header_size = record.header_size();
    if (rest.size() < size) {
        violate("ring {}: a record is cut in two", ring.index);
        return previous;
    }
    std::uint64_t word = 0;
    std::memcpy(&word, rest.data(), layout_.short_size);
    std::uint64_t id = word & layout_.all_ones();
    const std::uint64_t period = layout_.time_period();
    std::uint64_t time = (previous & ~(period - 1)) | word >> layout_.id_bits;
    if (time < previous) time += period;
    if (id == layout_.all_ones()) {
        id = 0;
        std::memcpy(&id, rest.data() + layout_.tag_size, 4);
        std::memcpy(&time, rest.data() + layout_.extended_time_offset(), sizeof time);
    }
    const auto* const payload = reinterpret_cast<const char*>(rest.data()) + header_size;  // NOLINT
    if (id != record.id || std::string_view(payload, record.payload.size()) != record.payload)
        violate("ring {}: a record of class {} at {} is not what was written", ring.index, id, record.position);
    if (time != std::max(record.time, begin))
        violate("ring {}: a record of {} comes as {}, in a packet that begins at {}", ring.index, record.time, time,
                begin);
    if (time < previous || time < ring.beacon || time < told_horizon_)
        violate("ring {}: a record of {} after {}, beacon {}, horizon {}", ring.index, time, previous, ring.beacon,
                told_horizon_);
    if (record.time < begin) ++late_;
    ++ring.delivered;
    ring.lost += record.count - 1;
    ring.consumed = record.end;
    rest = rest.subspan(size);
    ring.pending.pop_front();
    return time;
}

inline Result<void> ConsumerModel::announce(std::span<const std::uint64_t> ids) {
    if (refused_announcements_ > 0) {
        --refused_announcements_;
        is_cut_reached_ = false;
        return fail(ErrorKind::kIo, "no space left on device");
    }
    for (const std::uint64_t id : ids) {
        if (id >= rings_.size() || rings_[id].is_announced) {
            violate("ring {} is announced", id);
            continue;
        }
        rings_[id].is_announced = true;
        // The stream begins at the time that the others have reached.
        rings_[id].begin = std::max(rings_[id].begin, newest_end_);
    }
    return {};
}

inline void ConsumerModel::write_beacon(std::uint64_t id, std::uint64_t timestamp) {
    ModelledRing& ring = rings_.at(id);
    if (!ring.is_announced) violate("ring {}: a beacon, and it was not announced", id);
    if (is_followed_ && ring.packets == 0) violate("ring {}: a beacon in front of all packets", id);
    if (timestamp <= ring.beacon || timestamp < ring.end || timestamp > horizon())
        violate("ring {}: beacon {} after {}", id, timestamp, ring.beacon);
    if (ring.holds_back()) violate("ring {}: a beacon in front of its records", id);
    ring.beacon = timestamp;
}

inline void ConsumerModel::cycle_done(std::uint64_t horizon) {
    if (horizon < told_horizon_ || horizon > this->horizon()) violate("horizon {} after {}", horizon, told_horizon_);
    for (const ModelledRing& ring : rings_)
        if (ring.holds_back()) violate("ring {}: a horizon in front of its records", ring.index);
    told_horizon_ = horizon;
}

inline std::uint64_t ConsumerModel::stored(std::uint64_t id) const {
    const ModelledRing& ring = rings_.at(id);
    if (!lags_) return kNever;
    return ring.unstored.empty() ? ring.packets : ring.unstored.front().sequence_number;
}

// Makes the output refuse something for a while.
inline void ConsumerModel::refuse() {
    switch (choose_(3)) {
        case 0:
            refusals_ = choose_(4);
            accepted_ = choose_(2) * choose_(8);
            break;
        case 1:
            refused_announcements_ = choose_(2);
            break;
        default:
            has_no_metadata_ = choose_(2) == 1;
    }
}

inline void ConsumerModel::begin_part() {
    ++part_;
    for (ModelledRing& ring : rings_) ring.lacks_packet = ring.is_announced;
}

inline void ConsumerModel::store_some() {
    if (is_one_in(4)) lags_ = !lags_;
    for (ModelledRing& ring : rings_) {
        if (!lags_)
            store(ring, ring.unstored.size());
        else
            store(ring, std::min<std::size_t>(choose_(4), ring.unstored.size()));
    }
}

// Checks packets that were sent straight from the ring: their bytes must not have changed.
inline void ConsumerModel::store(ModelledRing& ring, std::size_t packets) {
    for (; packets != 0; --packets) {
        const ModelledRing::UnstoredPacket& packet = ring.unstored.front();
        if (!std::equal(packet.records.begin(), packet.records.end(), packet.copy.begin()))
            violate("ring {}: packet {} was written over", ring.index, packet.sequence_number);
        ring.unstored.pop_front();
        ring.lacks_packet = false;  // the packet was sent again
    }
}

}  // namespace leat::test
