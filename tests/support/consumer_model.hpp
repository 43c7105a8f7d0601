// A model of the rings of one or two channels and their consumer. Writers, consumer and output take random steps,
// including faults. The model knows what must come out, and reports anything else. Unit tests draw the steps from
// random numbers, a fuzz target from its input.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "consumer/consumer.hpp"
#include "support/model.hpp"
#include "support/modelled_writers.hpp"

namespace leat::test {

// What became of the contents of a ring.
struct ModelledRing : WrittenRing {
    struct UnstoredPacket {
        std::uint64_t sequence_number;
        std::uint64_t begin;  // position of its records
        UntrustedBytes records;
        std::vector<std::byte> copy;
    };

    // The consumer.
    std::uint64_t consumed = 0;  // position after all that was delivered or lost
    std::uint64_t sampled = 0;   // head when this drain began
    std::uint64_t delivered = 0;
    std::uint64_t lost = 0;                               // unreadable, or beyond the limit
    std::uint64_t begin = 0;                              // ns; of the next packet
    std::uint64_t end = 0;                                // ns; of the last packet
    std::deque<std::array<std::uint64_t, 2>> discards{};  // head, and what was discarded, when each drain began
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

    [[nodiscard]] bool has_sampled() const { return !pending.empty() && pending.front().position < sampled; }
    [[nodiscard]] bool is_full() const { return unstored.size() >= consumer::Consumer::kMaxUnstored; }
    // Whether the drain leaves records that it looked at. If it reaches records that begin with a broken one, it gives
    // them up.
    [[nodiscard]] bool holds_back() const {
        return has_sampled() && (is_full() || was_refused || !pending.front().is_broken);
    }
};

class ConsumerModel : public consumer::Output, private ModelledWriters<ModelledRing> {
  public:
    explicit ConsumerModel(Choose choose, bool are_tiny = false);

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
    [[nodiscard]] bool has_reached_limit() const { return limit_.is_reached(); }

    // The consumer's output.
    Result<void> write_metadata(std::string_view) override { return {}; }
    Result<void> write_packet(const consumer::Packet& packet) override;
    Result<void> announce(std::span<const consumer::StreamId> ids) override;
    void write_beacon(consumer::StreamId id, std::uint64_t cycles) override;
    void cycle_done(std::uint64_t cycles) override;
    [[nodiscard]] std::uint64_t stored(consumer::StreamId id) const override;
    [[nodiscard]] std::uint64_t part() const override { return part_; }

  private:
    [[nodiscard]] std::uint64_t sum(std::uint64_t ModelledRing::*member) const {
        std::uint64_t sum = 0;
        for (const ModelledRing& ring : rings_) sum += ring.*member;
        return sum;
    }
    [[nodiscard]] std::uint64_t sum_of(std::uint32_t channel, std::uint64_t ModelledRing::*member) const {
        std::uint64_t sum = 0;
        for (const ModelledRing& ring : rings_)
            if (ring.id.channel == channel) sum += ring.*member;
        return sum;
    }
    // Whether the consumer has met it.
    [[nodiscard]] bool is_known(const ModelledRing& ring) const {
        return static_cast<std::size_t>(&ring - rings_.data()) < known_rings_;
    }
    [[nodiscard]] consumer::Consumer::Parameters parameters();
    [[nodiscard]] std::uint64_t horizon() const;
    // Whether the drain leaves out what it has looked at.
    [[nodiscard]] bool is_left_out(const ModelledRing& ring) const {
        return limit_.is_reached() && !ring.was_refused && !ring.is_full();
    }
    [[nodiscard]] bool holds_back(const ModelledRing& ring) const { return ring.holds_back() && !is_left_out(ring); }

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
    void check_discards(ModelledRing& ring, std::uint64_t told);
    void check_records(ModelledRing& ring, const consumer::Packet& packet);
    std::uint64_t check_record(ModelledRing& ring, UntrustedBytes& rest, std::uint64_t begin, std::uint64_t previous);

    std::uint64_t late_ = 0;

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
    bool is_bell_missed_ = false;              // whether a writer during the last drain may have missed it
    bool is_ending_ = false;
    bool is_last_drain_good_ = true;
    std::uint64_t told_horizon_ = 0;
    std::uint64_t last_horizon_ = 0;     // of the last drain that succeeded, told or not
    std::set<std::uint64_t> beacons_{};  // of this drain

    std::uint64_t max_bytes_;
    std::uint64_t bytes_ = 0;  // of all packets
    consumer::SizeLimit limit_;
    std::uint64_t first_wake_after_;
    consumer::Consumer::Parameters parameters_;
    consumer::Consumer consumer_;
};

// The same with tiny headers.
class TinyConsumerModel final : public ConsumerModel {
  public:
    explicit TinyConsumerModel(Choose choose) : ConsumerModel(std::move(choose), true) {}
};

inline ConsumerModel::ConsumerModel(Choose choose, bool are_tiny)
    : ModelledWriters(std::move(choose), are_tiny),
      is_followed_(choose_(2) == 1),
      max_bytes_(is_one_in(8) ? 2'000 + choose_(8'000) : consumer::SizeLimit::kNone),
      limit_(max_bytes_),
      first_wake_after_(any_wake_after()),
      parameters_(parameters()),
      consumer_((add_channels(first_wake_after_), sources()), *this, parameters_) {
    if (!is_followed_) return;
    begin_drain();
    if (!consumer_.announce_cpu_rings()) violate("the rings of CPUs cannot be announced");
}

inline consumer::Consumer::Parameters ConsumerModel::parameters() {
    const std::array<std::size_t, 4> max_packet_size{~std::size_t{0}, ctf::kPacketHeaderSize + 1,
                                                     ctf::kPacketHeaderSize + 60, 4096};
    return {.trace_uuid = {7},
            .clock = &clock_,
            .max_packet_size = max_packet_size[choose_(max_packet_size.size())],
            .before_cut = [this] { return before_cut(); },
            .limit = max_bytes_ != consumer::SizeLimit::kNone ? &limit_ : nullptr};
}

inline void ConsumerModel::step() {
    struct Step {
        std::uint64_t weight;
        void (*take)(ConsumerModel&);
    };
    static constexpr std::array kSteps{
        Step{8, [](ConsumerModel& model) { model.write_some(); }},
        Step{7, [](ConsumerModel& model) { model.drain(); }},
        Step{4, [](ConsumerModel& model) { model.move_clock(); }},
        Step{3, [](ConsumerModel& model) { model.write_late(); }},
        Step{2, [](ConsumerModel& model) { model.store_some(); }},
        Step{1, [](ConsumerModel& model) { model.claim_ring(); }},
        Step{1, [](ConsumerModel& model) { model.kill_writer(); }},
        Step{1, [](ConsumerModel& model) { model.discard(); }},
        Step{1, [](ConsumerModel& model) { model.break_record(); }},
        Step{1, [](ConsumerModel& model) { model.make_one_of_two(); }},
        Step{1, [](ConsumerModel& model) { model.refuse(); }},
        Step{1, [](ConsumerModel& model) { model.begin_part(); }},
    };
    ++steps_;
    any_of(kSteps).take(*this);
    check_room();
    check_bells();
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
    beacons_.clear();
    is_bell_missed_ = std::exchange(has_rung_in_vain_, false);
    for (ModelledRing& ring : rings_) {
        ring.sampled = ring.header->head;
        ring.known_discards = ring.discarded + ring.lost;
        if (is_known(ring)) ring.discards.push_back({ring.sampled, ring.discarded});
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
        if (is_drained && !ring.has_sampled() && is_known(ring)) ring.begin = std::max(ring.begin, horizon());
        if (is_drained && ring.lacks_packet && ring.unstored.empty() && !limit_.is_reached())
            violate("{}: no packet begins part {}", name_of(ring), part_);
        if (!lags_) store(ring, ring.unstored.size());
        ring.is_held_up = ring.has_sampled() || ring.is_full();
        if (!lags_ && ring.header->tail != ring.consumed)
            violate("{}: its room up to {} does not come back, only up to {}", name_of(ring), ring.consumed,
                    ring.header->tail);
    }
    const bool has_consumed_all =
        std::none_of(rings_.begin(), rings_.end(), [](const ModelledRing& ring) { return ring.has_sampled(); });
    const std::uint64_t given_up = consumer_.unreadable() + consumer_.beyond_limit();
    if (has_consumed_all && given_up != lost()) violate("{} given up, the consumer tells of {}", lost(), given_up);
}

// The drain had to take all that it looked at. Records after a broken one are lost with it, because nobody can tell
// where they begin.
inline void ConsumerModel::consume_sample(ModelledRing& ring) {
    if (!ring.has_sampled()) return;
    if (!ring.pending.front().is_broken && !limit_.is_reached())
        return violate("{}: a record is not delivered", name_of(ring));
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
            violate("{}: room up to {} is given back, that up to {} may be", name_of(ring), ring.header->tail, most);
    }
}

// A writer that leaves more than the consumer wants to wait for must have rung, unless the consumer comes by itself.
inline void ConsumerModel::check_bells() {
    if (has_rung_ || is_bell_missed_ || !is_last_drain_good_ || consumer_.wants_drain()) return;
    for (const ModelledRing& ring : rings_) {
        const std::uint64_t waiting = ring.header->head - ring.consumed;
        if (!ring.is_held_up && waiting > channel_of(ring).wake_after)
            violate("{}: {} bytes wait, and nobody rang", name_of(ring), waiting);
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
            violate("{}: {} committed, {} delivered + {} lost", name_of(ring), ring.committed, ring.delivered,
                    ring.lost);
        const bool has_no_room = bytes_ + 2 * ctf::kPacketHeaderSize > max_bytes_;
        if (ring.told_discards != ring.discarded + ring.lost && !has_no_room)
            violate("{}: {} discarded + {} lost, the packets tell of {}", name_of(ring), ring.discarded, ring.lost,
                    ring.told_discards);
    }
    if (consumer_.unreadable() + consumer_.beyond_limit() != lost())
        violate("{} lost, {} unreadable, {} beyond the limit", lost(), consumer_.unreadable(),
                consumer_.beyond_limit());
    if (consumer_.beyond_limit() != 0 && !limit_.is_reached()) violate("records are left out without a limit");
    if (consumer_.totals().bytes != bytes_)
        violate("{} bytes, the consumer tells of {}", bytes_, consumer_.totals().bytes);
    if (consumer_.discarded() != sum(&ModelledRing::discarded) + lost())
        violate("the consumer tells of {} discarded", consumer_.discarded());
    for (std::uint32_t channel = 0; channel < channels_.size(); ++channel) {
        const std::uint64_t delivered = sum_of(channel, &ModelledRing::delivered);
        const std::uint64_t lost = sum_of(channel, &ModelledRing::lost);
        const std::uint64_t given_up = consumer_.unreadable(channel) + consumer_.beyond_limit(channel);
        if (consumer_.events(channel) != delivered || given_up != lost)
            violate("channel {}: {} delivered and {} lost, the consumer tells of {} and {}", channel, delivered, lost,
                    consumer_.events(channel), given_up);
    }
    const consumer::Totals& totals = consumer_.totals();
    if (totals.events != delivered() || totals.packets != sum(&ModelledRing::packets) || totals.left_in_rings != 0)
        violate("the totals are {} events, {} packets, {} left", totals.events, totals.packets, totals.left_in_rings);
    for (const std::string& why : consumer_.quarantined()) violate("{}", why);
}

// Output --------------------------------------------------------------------------------------------------------------

inline Result<void> ConsumerModel::write_packet(const consumer::Packet& packet) {
    const ctf::PacketHeader header = in_ns(packet.header);
    ModelledRing* const found = find(packet.stream);
    if (found == nullptr || header.stream_instance_id != packet.stream.ring) {
        violate("a packet of ring {} of channel {}, which says {}", packet.stream.ring, packet.stream.channel,
                header.stream_instance_id);
        return {};
    }
    ModelledRing& ring = *found;
    if (refusals_ > 0 && accepted_ > 0) {
        --accepted_;
    } else if (refusals_ > 0) {
        --refusals_;
        ring.was_refused = true;
        // Packets without records come before the cut, except those that begin a stream whose records are unreadable.
        is_cut_reached_ &= !packet.records.empty() || (ring.packets == 0 && begun_part_ == part_);
        return fail(ErrorKind::kIo, "no space left on device");
    }
    if (!lags_) store(ring, ring.unstored.size());
    check_bounds(ring, header);
    bytes_ += header.packet_size / 8;
    if (bytes_ > max_bytes_) violate("{}: {} bytes of {}", name_of(ring), bytes_, max_bytes_);
    ring.unstored.push_back({.sequence_number = header.packet_seq_num,
                             .begin = ring.consumed,
                             .records = packet.records,
                             .copy = {packet.records.begin(), packet.records.end()}});
    check_records(ring, packet);
    ring.end = header.timestamp_end;
    ring.begin = std::max(ring.end, header.timestamp_begin + trace_clock().cycle());
    newest_end_ = std::max(newest_end_, header.timestamp_end);
    check_discards(ring, header.events_discarded);
    ring.told_discards = header.events_discarded;
    ring.lacks_packet = false;
    ++ring.packets;
    write_meanwhile();
    return {};
}

inline void ConsumerModel::check_bounds(const ModelledRing& ring, const ctf::PacketHeader& header) {
    if (!ring.is_announced) violate("{}: a packet, and it was not announced", name_of(ring));
    // Where the output stores at once, a drain may cut more, and we note what is stored at its end.
    if (lags_ && ring.is_full()) violate("{}: too many packets are not stored", name_of(ring));
    if (header.packet_seq_num != ring.packets)
        violate("{}: packet {} comes as the {}th", name_of(ring), header.packet_seq_num, ring.packets);
    if (header.timestamp_begin != whole(ring.begin))
        violate("{}: a packet begins at {}, not {}", name_of(ring), header.timestamp_begin, ring.begin);
    if (header.timestamp_begin < ring.beacon)
        violate("{}: a packet begins at {}, the beacon was {}", name_of(ring), header.timestamp_begin, ring.beacon);
    const std::uint64_t most = is_ending_ ? ring.discarded + ring.lost : ring.known_discards;
    if (header.events_discarded < ring.told_discards || header.events_discarded > most)
        violate("{}: {} discarded, {} before, {} in all", name_of(ring), header.events_discarded, ring.told_discards,
                most);
    if (ring.packets == 0 && header.events_discarded != 0)
        violate("{}: the first packet tells of {} discarded", name_of(ring), header.events_discarded);
    const bool is_of_cpu = ring.id.ring < kCpuRings;
    if (header.stream_id != 2 * ring.id.channel + (is_of_cpu ? 0 : 1) ||
        header.cpu_or_thread_ring != (is_of_cpu ? ring.id.ring : ring.id.ring - kCpuRings))
        violate("{}: packet of stream class {}, ring {}", name_of(ring), header.stream_id, header.cpu_or_thread_ring);
}

// A packet tells of all that was discarded before its last record, as far as the consumer has looked in between; but
// the first one, in which nobody could tell how many that are.
inline void ConsumerModel::check_discards(ModelledRing& ring, std::uint64_t told) {
    if (ring.packets == 0) return;
    std::uint64_t least = 0;
    for (; !ring.discards.empty() && ring.discards.front()[0] < ring.consumed; ring.discards.pop_front())
        least = ring.discards.front()[1];
    if (told < least)
        violate("{}: a packet up to {} tells of {} discarded, not {}", name_of(ring), ring.consumed, told, least);
}

inline void ConsumerModel::check_records(ModelledRing& ring, const consumer::Packet& packet) {
    const ctf::PacketHeader header = in_ns(packet.header);
    std::vector<std::byte> bytes = packet.late_records;
    const UntrustedBytes others = packet.other_records();
    bytes.insert(bytes.end(), others.begin(), others.end());
    if (header.content_size != (ctf::kPacketHeaderSize + bytes.size()) * 8)
        violate("{}: {} bytes of records, {} bits in all", name_of(ring), bytes.size(), header.content_size);
    std::uint64_t time = header.timestamp_begin;
    std::uint64_t records = 0;
    for (UntrustedBytes rest(bytes); !rest.empty() && violation_.empty(); ++records)
        time = check_record(ring, rest, header.timestamp_begin, time);
    if (records != packet.events) violate("{}: {} events, not {}", name_of(ring), records, packet.events);
    if (records > 1 && ctf::kPacketHeaderSize + bytes.size() > parameters_.max_packet_size)
        violate("{}: a packet of {} bytes of records", name_of(ring), bytes.size());
    if (time != header.timestamp_end)
        violate("{}: a packet ends at {}, its last record at {}", name_of(ring), header.timestamp_end, time);
}

// Decodes a record as a reader does, checks it, and returns its time.
inline std::uint64_t ConsumerModel::check_record(ModelledRing& ring, UntrustedBytes& rest, std::uint64_t begin,
                                                 std::uint64_t previous) {
    if (!ring.has_sampled() || ring.pending.front().is_broken) {
        violate("{}: a record that nobody wrote", name_of(ring));
        return previous;
    }
    const ModelledRing::Record& record = ring.pending.front();
    const std::size_t size = record.end - record.position;
    const std::size_t header_size = record.header_size();
    if (rest.size() < size) {
        violate("{}: a record is cut in two", name_of(ring));
        return previous;
    }
    const auto [id, time] = decode_header(channel_of(ring).layout, rest, previous);
    const auto* const payload = reinterpret_cast<const char*>(rest.data()) + header_size;  // NOLINT
    if (id != record.id || std::string_view(payload, record.payload.size()) != record.payload)
        violate("{}: a record of class {} at {} is not what was written", name_of(ring), id, record.position);
    if (time != std::max(whole(record.time), begin))
        violate("{}: a record of {} comes as {}, in a packet that begins at {}", name_of(ring), record.time, time,
                begin);
    if (time < previous || time < ring.beacon || time < told_horizon_)
        violate("{}: a record of {} after {}, beacon {}, horizon {}", name_of(ring), time, previous, ring.beacon,
                told_horizon_);
    if (record.time < begin) ++late_;
    ++ring.delivered;
    ring.lost += record.count - 1;
    ring.consumed = record.end;
    rest = rest.subspan(size);
    ring.pending.pop_front();
    return time;
}

inline Result<void> ConsumerModel::announce(std::span<const consumer::StreamId> ids) {
    if (refused_announcements_ > 0) {
        --refused_announcements_;
        is_cut_reached_ = false;
        return fail(ErrorKind::kIo, "no space left on device");
    }
    for (const consumer::StreamId id : ids) {
        ModelledRing* const ring = find(id);
        if (ring == nullptr || ring->is_announced) {
            violate("ring {} of channel {} is announced", id.ring, id.channel);
            continue;
        }
        ring->is_announced = true;
        // The stream begins at the time that the others have reached.
        ring->begin = std::max(ring->begin, newest_end_);
    }
    return {};
}

inline void ConsumerModel::write_beacon(consumer::StreamId id, std::uint64_t cycles) {
    const std::uint64_t timestamp = in_ns(cycles);
    ModelledRing* const found = find(id);
    if (found == nullptr) return violate("a beacon of ring {} of channel {}", id.ring, id.channel);
    ModelledRing& ring = *found;
    const std::string name = name_of(ring);
    if (!ring.is_announced) violate("{}: a beacon, and it was not announced", name);
    if (is_followed_ && ring.packets == 0 && !limit_.is_reached())
        violate("{}: a beacon in front of all packets", name);
    if (timestamp <= ring.beacon || timestamp < ring.end || timestamp > horizon())
        violate("{}: beacon {} after {}", name, timestamp, ring.beacon);
    if (holds_back(ring)) violate("{}: a beacon in front of its records", name);
    // babeltrace2 warns of streams whose beacons are the same.
    if (!beacons_.insert(timestamp).second) violate("{}: beacon {} is that of another stream", name, timestamp);
    ring.beacon = timestamp;
}

inline void ConsumerModel::cycle_done(std::uint64_t cycles) {
    const std::uint64_t horizon = in_ns(cycles);
    if (horizon < told_horizon_ || horizon > this->horizon()) violate("horizon {} after {}", horizon, told_horizon_);
    for (const ModelledRing& ring : rings_)
        if (holds_back(ring)) violate("{}: a horizon in front of its records", name_of(ring));
    told_horizon_ = horizon;
}

inline std::uint64_t ConsumerModel::stored(consumer::StreamId id) const {
    if (!lags_) return kNever;
    const ModelledRing& ring = *std::ranges::find(rings_, id, &ModelledRing::id);
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
    // The consumer was told that they are.
    if (!lags_)
        for (ModelledRing& ring : rings_) store(ring, ring.unstored.size());
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
            violate("{}: packet {} was written over", name_of(ring), packet.sequence_number);
        ring.unstored.pop_front();
        ring.lacks_packet = false;  // the packet was sent again
    }
}

}  // namespace leat::test
