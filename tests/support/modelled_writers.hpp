// Writers of the rings of one or two channels, who take random steps: the common part of the models of the consumer.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "consumer/consumer.hpp"
#include "ring/ring_set.hpp"
#include "ring/rseq_writer.hpp"
#include "ring/thread_writer.hpp"
#include "support/model.hpp"
#include "support/ring_memory.hpp"
#include "support/rseq.hpp"

namespace leat::test {

// One ring, and what was written into it. A model adds what becomes of that.
struct WrittenRing {
    // One record as it lies in the ring; or two, if a program has made one of them.
    struct Record {
        std::uint64_t position;  // in the ring
        std::uint64_t end;
        std::uint64_t time;  // ns; as the writer stamped it
        std::uint32_t id;
        std::string payload;  // begins with the context
        std::uint64_t count = 1;
        bool is_broken = false;   // nobody can tell where it ends
        bool is_planned = false;  // in a packet that comes again as it was: nobody changes it

        [[nodiscard]] std::uint64_t header_size() const { return end - position - payload.size(); }
    };

    ring::RingHeader* header = nullptr;
    consumer::StreamId id{};
    std::uint64_t claimed_at = 0;  // ns; no record is older
    std::uint64_t committed = 0;
    std::uint64_t discarded = 0;
    std::deque<Record> pending{};  // committed, and not taken by the consumer
    // Overwrite mode: positions where packets begin, and what was noted there. No record is on both sides.
    struct Cut {
        std::uint64_t time;
        std::uint64_t discarded;
    };
    std::map<std::uint64_t, Cut> cuts{};

    [[nodiscard]] char* bytes_at(std::uint64_t position, std::uint64_t size) const {
        return reinterpret_cast<char*>(header) + ring::kPageSize + (position & (size - 1));  // NOLINT
    }
};

// The rings of one channel, and what its events look like.
struct ModelledChannel {
    ModelledChannel(ring::HeaderKind kind, std::uint64_t start, const ring::ClockPage& clock, bool overwrites = false);

    static constexpr std::uint64_t kSize = ring::kMinRingSize;
    static constexpr std::uint32_t kCpuRings = 2;
    static constexpr std::uint32_t kThreadRings = 2;
    static constexpr std::size_t kContextSize = 4;

    ring::RecordHeaderLayout layout;
    ring::RingSet set;
    std::vector<ring::RingHeader*> mapped;
    ring::RingMap map;
    ctf::RecordWalker walker;
    std::uint64_t wake_after = 0;
    std::uint32_t used_rings = kCpuRings;  // and those that threads have claimed
};

struct DecodedHeader {
    std::uint64_t id;
    std::uint64_t time;  // ns
};

// Decodes the header of a record as a reader does, who has come to the time `previous`.
inline DecodedHeader decode_header(const ring::RecordHeaderLayout& layout, UntrustedBytes record,
                                   std::uint64_t previous) {
    std::uint64_t word = 0;
    std::memcpy(&word, record.data(), layout.short_size);
    const std::uint64_t period = layout.time_period() >> layout.cycle_bits;
    const std::uint64_t from = previous >> layout.cycle_bits;
    std::uint64_t cycles = (from & ~(period - 1)) | word >> layout.id_bits;
    if (cycles < from) cycles += period;
    std::uint64_t id = word & layout.all_ones();
    if (id == layout.all_ones()) {
        id = cycles = 0;
        std::memcpy(&id, record.data() + layout.tag_size, 4);
        std::memcpy(&cycles, record.data() + layout.extended_time_offset(), layout.extended_time_size());
    }
    return {.id = id, .time = cycles << layout.cycle_bits};
}

// `Ring` is a WrittenRing. The models derive from this.
template <class Ring>
class ModelledWriters {
  protected:
    static constexpr std::uint64_t kSize = ModelledChannel::kSize;
    static constexpr std::uint32_t kCpuRings = ModelledChannel::kCpuRings;
    static constexpr std::uint32_t kThreadRings = ModelledChannel::kThreadRings;
    static constexpr std::size_t kContextSize = ModelledChannel::kContextSize;
    static constexpr std::uint64_t kNever = ~std::uint64_t{0};
    static constexpr std::uint64_t kUnknownId = 9;
    static constexpr std::uint64_t kUnknownLargeId = 77;

    // `are_tiny`: the headers of all channels, so that their times count in cycles. `overwrites`: nobody drains the
    // rings.
    ModelledWriters(Choose choose, bool are_tiny, bool overwrites = false);

    template <class... Arguments>
    void violate(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
        if (violation_.empty())
            violation_ = fmt::format("step {}: {}", steps_, fmt::format(text, std::forward<Arguments>(arguments)...));
    }
    // "ring 1.3": the fourth ring of the second channel.
    [[nodiscard]] static std::string name_of(const WrittenRing& ring) {
        return fmt::format("ring {}.{}", ring.id.channel, ring.id.ring);
    }
    [[nodiscard]] bool is_one_in(std::uint64_t count) { return choose_(count) == count - 1; }

    [[nodiscard]] ring::HeaderKind any_kind() {
        if (are_tiny_) return ring::HeaderKind::kTiny;
        return choose_(2) == 0 ? ring::HeaderKind::kCompact : ring::HeaderKind::kLarge;
    }
    [[nodiscard]] const ring::RecordHeaderLayout& trace_clock() const { return channels_.front().layout; }
    // What the trace says of a time, in ns again.
    [[nodiscard]] std::uint64_t whole(std::uint64_t time) const { return trace_clock().whole_cycles(time); }
    [[nodiscard]] std::uint64_t in_ns(std::uint64_t cycles) const { return trace_clock().time_of(cycles); }
    [[nodiscard]] ctf::PacketHeader in_ns(ctf::PacketHeader header) const {
        header.timestamp_begin = in_ns(header.timestamp_begin);
        header.timestamp_end = in_ns(header.timestamp_end);
        return header;
    }
    [[nodiscard]] std::uint64_t any_wake_after();
    // Of a step with a `weight`: by chance.
    template <class Step, std::size_t count>
    const Step& any_of(const std::array<Step, count>& steps);
    void add_channels(std::uint64_t first_wake_after);
    [[nodiscard]] std::vector<consumer::Consumer::Source> sources() const;
    [[nodiscard]] const ModelledChannel& channel_of(const WrittenRing& ring) const {
        return channels_[ring.id.channel];
    }
    // Null if there is none.
    [[nodiscard]] Ring* find(consumer::StreamId id);

    void move_clock();
    void set_clock(std::uint64_t now);
    Ring& any_ring();
    void add_ring(std::uint32_t channel, std::uint32_t ring, std::uint64_t claimed_at);
    void claim_ring();
    void write_some();
    void write_any(Ring& ring, std::uint64_t time);
    void write_late();
    void write(Ring& ring, std::uint32_t id, std::string payload, std::uint64_t time);
    ring::WriteOutcome write_in_sequence(ring::RecordWriter& writer, std::uint32_t cpu, std::uint32_t id,
                                         const char* staged, std::uint64_t size, std::uint64_t time);
    [[nodiscard]] std::string make_payload(std::uint32_t id, std::size_t length);
    void kill_writer();
    void discard();
    void break_record();
    void make_one_of_two();

    Choose choose_;
    bool are_tiny_;
    std::uint64_t steps_ = 0;  // taken
    std::string violation_;

    bool overwrites_;
    ring::HeaderKind first_kind_;  // of the first channel
    std::uint64_t start_;          // ns
    std::uint64_t now_;
    ring::ClockPage clock_{};
    std::vector<Ring> rings_;        // the rings of CPUs of all channels, and those that threads have claimed
    bool has_rung_ = false;          // since the last drain began
    bool has_rung_in_vain_ = false;  // since then
    std::uint64_t payloads_ = 0;

    std::deque<ModelledChannel> channels_;
};

inline ModelledChannel::ModelledChannel(ring::HeaderKind kind, std::uint64_t start, const ring::ClockPage& clock,
                                        bool overwrites)
    : layout(ring::header_layout(kind)),
      set(*ring::RingSet::create(
          {.ring_size = kSize, .cpu_rings = kCpuRings, .thread_rings = kThreadRings, .overwrites = overwrites}, start)),
      mapped(all_rings(set)),
      map{.rings = mapped.data(),
          .mask = kSize - 1,
          .clock = &clock,
          .rseq_offset = unknown_area_offset(),
          .cpu_ring_count = kCpuRings,
          .thread_ring_count = kThreadRings,
          .form = ring::header_form(kind)},
      walker(layout, kContextSize) {
    if (overwrites) map.overwrite();
    const auto integer = [](unsigned bits) { return ctf::IntegerClass{.size = bits}; };
    const auto add = [this](std::uint64_t id, std::vector<ctf::StructMember> fields) {
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
    add(5, {{"_v", ctf::ArrayClass{ctf::FieldClass(integer(8)), 12 + layout.short_size + kContextSize + 12}}});
    add(40, {{"_s", ctf::StringClass{}}, {"_t", ctf::StringClass{}}});
}

template <class Ring>
ModelledWriters<Ring>::ModelledWriters(Choose choose, bool are_tiny, bool overwrites)
    : choose_(std::move(choose)),
      are_tiny_(are_tiny),
      overwrites_(overwrites),
      first_kind_(any_kind()),
      start_(std::array<std::uint64_t, 4>{1'000'000, (1ULL << 32) - 5'000, 3'600'000'000'000,
                                          (1ULL << 62) - 7}[choose_(4)]),
      now_(start_) {
    clock_.source = ring::ClockSource::kTsc;
    set_clock(start_);
}

template <class Ring>
template <class Step, std::size_t count>
const Step& ModelledWriters<Ring>::any_of(const std::array<Step, count>& steps) {
    std::uint64_t all = 0;
    for (const Step& step : steps) all += step.weight;
    std::uint64_t chosen = choose_(all);
    const Step* step = steps.data();
    for (; chosen >= step->weight; ++step) chosen -= step->weight;
    return *step;
}

template <class Ring>
std::uint64_t ModelledWriters<Ring>::any_wake_after() {
    const std::array<std::uint64_t, 4> wake_after{0, 100, kSize / 2, kNever};
    return wake_after[choose_(wake_after.size())];
}

// A writer may claim a ring while another one is in use: they do not move.
template <class Ring>
void ModelledWriters<Ring>::add_channels(std::uint64_t first_wake_after) {
    channels_.emplace_back(first_kind_, start_, clock_, overwrites_).wake_after = first_wake_after;
    if (choose_(3) != 0) {
        // All channels have one clock, and its cycle.
        const ring::HeaderKind kind = first_kind_ == ring::HeaderKind::kTiny ? first_kind_ : any_kind();
        channels_.emplace_back(kind, start_, clock_, overwrites_).wake_after = any_wake_after();
    }
    rings_.reserve(channels_.size() * (kCpuRings + kThreadRings));
    for (std::uint32_t channel = 0; channel < channels_.size(); ++channel)
        for (std::uint32_t ring = 0; ring < kCpuRings; ++ring) add_ring(channel, ring, start_);
}

template <class Ring>
std::vector<consumer::Consumer::Source> ModelledWriters<Ring>::sources() const {
    std::vector<consumer::Consumer::Source> sources;
    for (const ModelledChannel& channel : channels_)
        sources.push_back({.rings = &channel.set,
                           .walker = &channel.walker,
                           .stream_class_id = 2 * sources.size(),
                           .thread_stream_class_id = 2 * sources.size() + 1,
                           .wake_after = channel.wake_after});
    return sources;
}

template <class Ring>
void ModelledWriters<Ring>::move_clock() {
    const std::array<std::uint64_t, 9> steps{1,          500,        2'000,      1'500'000,        120'000'000,
                                             1ULL << 26, 1ULL << 27, 1ULL << 32, 3'600'000'000'000};
    std::uint64_t step = steps[choose_(steps.size())];
    // Gaps about the limit of tiny headers, in place of that of compact ones.
    if (are_tiny_ && step == 1ULL << 26) step = trace_clock().gap_limit();
    if (are_tiny_ && step == 1ULL << 27) step = trace_clock().time_period();
    set_clock(now_ + step - choose_(2));
}

template <class Ring>
void ModelledWriters<Ring>::set_clock(std::uint64_t now) {
    now_ = now;
    clock_.lines[0] = {.tsc_base = 0, .ns_base = now, .multiplier = 0, .unused = 0};
}

template <class Ring>
Ring& ModelledWriters<Ring>::any_ring() {
    return rings_[choose_(rings_.size())];
}

template <class Ring>
Ring* ModelledWriters<Ring>::find(consumer::StreamId id) {
    const auto found = std::ranges::find(rings_, id, &Ring::id);
    return found == rings_.end() ? nullptr : &*found;
}

template <class Ring>
void ModelledWriters<Ring>::add_ring(std::uint32_t channel, std::uint32_t ring, std::uint64_t claimed_at) {
    Ring& added = rings_.emplace_back();
    added.header = channels_[channel].mapped[ring];
    added.id = {channel, ring};
    added.claimed_at = claimed_at;
}

template <class Ring>
void ModelledWriters<Ring>::claim_ring() {
    const auto index = channels_.size() == 1 ? 0U : static_cast<std::uint32_t>(choose_(channels_.size()));
    ModelledChannel& channel = channels_[index];
    if (channel.used_rings == kCpuRings + kThreadRings) return;
    add_ring(index, channel.used_rings++, now_);
    channel.set.header().thread_rings_used = channel.used_rings - kCpuRings;
    if (channel.map.overwrites()) rings_.back().header->limit = channel.map.block_size;
}

template <class Ring>
void ModelledWriters<Ring>::write_some() {
    Ring& ring = any_ring();
    for (std::uint64_t left = choose_(6) + 1; left != 0; --left) {
        write_any(ring, now_);
        if (is_one_in(4)) set_clock(now_ + choose_(1'000));
    }
}

// A record that may have been stamped before the consumer read the clock is committed now.
template <class Ring>
void ModelledWriters<Ring>::write_late() {
    Ring& ring = any_ring();
    for (std::uint64_t left = choose_(4) + 1; left != 0; --left) {
        const std::uint64_t oldest = std::max(ring.header->last_timestamp, ring.claimed_at);
        const std::uint64_t most = now_ - oldest;
        const std::uint64_t before = choose_(2) == 0 ? choose_(3'000) : choose_(most + 1);
        write_any(ring, now_ - std::min(before, most));
    }
}

template <class Ring>
void ModelledWriters<Ring>::write_any(Ring& ring, std::uint64_t time) {
    const std::array<std::uint32_t, 8> ids{1, 1, 1, 0, 2, 3, 4, 40};
    const std::uint32_t id = ids[choose_(ids.size())];
    const std::uint64_t length = id == 4 && is_one_in(4) ? choose_(ring::max_record_size(kSize) - 10) : choose_(40);
    write(ring, id, make_payload(id, length), time);
}

// The bytes differ between records.
template <class Ring>
std::string ModelledWriters<Ring>::make_payload(std::uint32_t id, std::size_t length) {
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
template <class Ring>
void ModelledWriters<Ring>::write(Ring& ring, std::uint32_t id, std::string payload, std::uint64_t time) {
    const std::string staged = payload + std::string(ring::kCopySlack, '~');
    const std::uint64_t position = ring.header->head;
    ring::RecordWriter writer{
        .map = channel_of(ring).map, .context_size = 0, .system_time = 0, .channel = 0, .contexts = {}};
    const std::uint64_t limit = ring.header->limit;
    const std::pair cut(position, WrittenRing::Cut{ring.header->last_timestamp, ring.discarded});
    const auto try_to_write = [&] {
        // Rings of CPUs in overwrite mode have their own writer.
        if (writer.map.overwrites() && ring.id.ring < kCpuRings && ring::kHasSequence)
            return write_in_sequence(writer, ring.id.ring, id, staged.data(), payload.size(), time);
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
    if (writer.map.overwrites() && ring.header->limit != limit) ring.cuts.insert(cut);
    ring.pending.push_back({.position = position,
                            .end = ring.header->head,
                            .time = ring.header->last_timestamp,
                            .id = id,
                            .payload = std::move(payload),
                            .is_broken = id == kUnknownId || id == kUnknownLargeId});
}

template <class Ring>
ring::WriteOutcome ModelledWriters<Ring>::write_in_sequence(ring::RecordWriter& writer, std::uint32_t cpu,
                                                            std::uint32_t id, const char* staged, std::uint64_t size,
                                                            std::uint64_t time) {
    const std::uint32_t word = 1;
    unknown_area.cpu_id = cpu;
    const std::uint64_t now = std::exchange(clock_.lines[0].ns_base, time);
    const ring::WriteOutcome outcome = ring::leat_rseq_write(&writer, id, &word, staged, size, word);
    clock_.lines[0].ns_base = now;
    return outcome;
}

// The writer announced a record and was killed before it could commit. There may be anything beyond head.
template <class Ring>
void ModelledWriters<Ring>::kill_writer() {
    ring::RingHeader& header = *any_ring().header;
    const std::uint64_t size = 5 + choose_(100);
    if (header.head + size + ring::kCopySlack > header.limit) return;
    header.next_records = ring::committed_records(header.head, header.next_head, header.next_records) + 1;
    header.next_head = header.head + size;
    for (std::uint64_t i = 0; i < size; ++i) *WrittenRing{.header = &header}.bytes_at(header.head + i, kSize) = '?';
}

template <class Ring>
void ModelledWriters<Ring>::discard() {
    Ring& ring = any_ring();
    const std::uint64_t count = choose_(5);
    ring.header->discarded[choose_(ring::kDiscardReasons)] += count;
    ring.discarded += count;
}

// Commits a record of an unknown class, or one that its program overwrites before the consumer looks.
template <class Ring>
void ModelledWriters<Ring>::break_record() {
    Ring& ring = any_ring();
    const std::uint64_t how = choose_(4);
    if (how == 0 || ring.pending.empty()) {
        const std::uint32_t id = choose_(2) == 0 ? kUnknownId : kUnknownLargeId;
        return write(ring, id, make_payload(1, 0), now_);
    }
    WrittenRing::Record& record = ring.pending[choose_(ring.pending.size())];
    if (record.is_broken || record.is_planned) return;
    record.is_broken = true;
    const ring::RecordHeaderLayout& layout = channel_of(ring).layout;
    char* const at = ring.bytes_at(record.position, kSize);
    const bool is_extended = record.header_size() != layout.short_size;
    if (is_extended && how == 1) {
        const std::uint64_t lie = record.position == 0 ? kNever : choose_(2) - 1;  // all ones, or 0
        std::memcpy(at + layout.extended_time_offset(), &lie, layout.extended_time_size());
    } else if (is_extended) {
        std::memcpy(at + layout.tag_size, &kUnknownLargeId, 4);
    } else if (record.id == 4 && how == 2) {
        std::memset(at + layout.short_size + kContextSize, 0xff, 4);
    } else {
        std::uint16_t begin = 0;
        std::memcpy(&begin, at, sizeof begin);
        begin = static_cast<std::uint16_t>((begin & ~layout.all_ones()) | kUnknownId);
        std::memcpy(at, &begin, sizeof begin);
    }
}

// Two records of the same time become one. Only their number shows that something is wrong.
template <class Ring>
void ModelledWriters<Ring>::make_one_of_two() {
    Ring& ring = any_ring();
    const std::size_t short_size = channel_of(ring).layout.short_size;
    for (std::uint64_t left = choose_(12) + 2; left != 0; --left) write(ring, 1, make_payload(1, 0), now_);
    for (std::size_t i = 1; i < ring.pending.size(); ++i) {
        WrittenRing::Record& first = ring.pending[i - 1];
        const WrittenRing::Record& second = ring.pending[i];
        const auto is_fit = [short_size](const WrittenRing::Record& record) {
            return record.id == 1 && !record.is_broken && !record.is_planned && record.header_size() == short_size;
        };
        if (!is_fit(first) || !is_fit(second) || first.time != second.time || is_one_in(3)) continue;
        // Overwrite mode: nothing lies on both sides of a cut, and what is gone stays as it is.
        if (ring.cuts.contains(second.position) || first.position + kSize < ring.header->limit) continue;
        char* const at = ring.bytes_at(first.position, kSize);
        *at = static_cast<char>((*at & ~static_cast<int>(ring::kCompactHeader.all_ones())) | 5);
        first.id = 5;
        first.end = second.end;
        first.count += second.count;
        first.payload.assign(at + short_size, first.end - first.position - short_size);
        ring.pending.erase(ring.pending.begin() + static_cast<std::ptrdiff_t>(i));
    }
}

}  // namespace leat::test
