// A model of consumers of which each is killed, and the next one goes on with what it has saved. Writers, consumers and
// output take random steps. A kill comes in the middle of a drain, before or after something has reached the output, or
// between two drains. After it the output has what TraceFiles::resume() leaves. Unit tests draw the steps from random
// numbers, a fuzz target from its input.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "consumer/consumer.hpp"
#include "support/model.hpp"
#include "support/modelled_writers.hpp"

namespace leat::test {

// What became of the contents of a ring:
//
//     0             saved            consumed         head
//      | settled     | taken          | pending        |
//
// A kill turns what was taken into what is pending.
struct RestartedRing : WrittenRing {
    static constexpr std::uint64_t kLost = ~std::uint64_t{0};
    struct Taken {
        Record record;
        std::uint64_t packet;  // in which it is; kLost: in none
    };
    struct KeptPacket {
        std::uint64_t begin;  // ns
        std::uint64_t end;
        std::uint64_t discards;
        UntrustedBytes records;
        std::vector<std::byte> copy;
        std::vector<std::byte> sent;  // the late records, and the others
    };

    // Settled: the next consumer will not look at these.
    std::uint64_t delivered = 0;
    std::uint64_t lost = 0;
    // The consumer.
    std::deque<Taken> taken{};
    std::uint64_t consumed = 0;  // position
    std::uint64_t sampled = 0;   // head when this drain began
    std::uint64_t tail_before = 0;
    std::uint64_t limit_before = 0;  // when this drain began
    // The output.
    std::vector<KeptPacket> packets{};
    std::uint64_t stored = 0;  // that many packets
    // That the next consumer could not know to be stored, by number: readers may have them.
    std::map<std::uint64_t, KeptPacket> known{};
    std::map<std::uint64_t, std::uint64_t> planned_at{};  // position in the ring, by number
    bool is_announced = false;
    bool was_refused = false;  // in this drain
    std::uint64_t beacon = 0;

    [[nodiscard]] bool has_sampled() const { return !pending.empty() && pending.front().position < sampled; }
    [[nodiscard]] bool is_full() const { return packets.size() - stored >= consumer::Consumer::kMaxUnstored; }
    void take(std::uint64_t packet) {
        consumed = pending.front().end;
        taken.push_back({std::move(pending.front()), packet});
        pending.pop_front();
    }
    [[nodiscard]] std::uint64_t all_delivered() const {
        return delivered + static_cast<std::uint64_t>(std::ranges::count_if(
                               taken, [](const Taken& record) { return record.packet != kLost; }));
    }
    // Of what is one record, and was two, one is lost.
    [[nodiscard]] static std::uint64_t lost_of(const Taken& taken) {
        return taken.record.count - (taken.packet == kLost ? 0 : 1);
    }
    [[nodiscard]] std::uint64_t all_lost() const {
        std::uint64_t sum = lost;
        for (const Taken& record : taken) sum += lost_of(record);
        return sum;
    }
};

class ConsumerRestartModel : public consumer::Output, private ModelledWriters<RestartedRing> {
  public:
    explicit ConsumerRestartModel(Choose choose, bool are_tiny = false);

    // Takes one random step.
    void step();
    // Ends the session, and checks that everything is accounted for. No step may follow.
    void finish();

    // The first violation, in words; empty if there was none.
    [[nodiscard]] const std::string& violation() const { return violation_; }
    // Counts, to check that the steps achieve something.
    [[nodiscard]] std::uint64_t delivered() const { return sum(&RestartedRing::all_delivered); }
    [[nodiscard]] std::uint64_t lost() const { return sum(&RestartedRing::all_lost); }
    [[nodiscard]] std::uint64_t kills() const { return kills_; }
    [[nodiscard]] std::uint64_t taken_again() const { return taken_again_; }

    // The consumer's output.
    Result<void> write_metadata(std::string_view) override { return {}; }
    Result<void> write_packet(const consumer::Packet& packet) override;
    Result<void> announce(std::span<const consumer::StreamId> ids) override;
    void write_beacon(consumer::StreamId id, std::uint64_t cycles) override;
    void cycle_done(std::uint64_t cycles) override;
    [[nodiscard]] std::uint64_t stored(consumer::StreamId id) const override;

  private:
    // Thrown where the process is killed.
    struct Killed {};

    [[nodiscard]] std::uint64_t sum(std::uint64_t (RestartedRing::*count)() const,
                                    std::optional<std::uint32_t> channel = std::nullopt) const {
        std::uint64_t sum = 0;
        for (const RestartedRing& ring : rings_)
            if (!channel || ring.id.channel == *channel) sum += (ring.*count)();
        return sum;
    }
    [[nodiscard]] std::vector<std::uint32_t> ring_counts() const {
        return std::vector<std::uint32_t>(channels_.size(), kCpuRings + kThreadRings);
    }
    [[nodiscard]] consumer::StreamProgress saved(const RestartedRing& ring) const {
        return progress_.find(ring.id).value_or(consumer::StreamProgress{});
    }

    // Consumer.
    void start();
    template <class Call>
    void call(const Call& call);
    void drain();
    void begin_call();
    void end_drain(bool is_drained);
    void drain_all();
    void finish_consumer();
    Result<void> before_cut();
    void write_meanwhile();
    void check_room();
    void check_balance();

    // Kills.
    void doom();
    void may_die();
    void kill();
    void kill(RestartedRing& ring);

    // Output.
    void refuse();
    void store_some();
    void store(RestartedRing& ring, std::size_t packets);
    void check_bounds(const RestartedRing& ring, const ctf::PacketHeader& header);
    void check_records(RestartedRing& ring, const consumer::Packet& packet);
    void check_known(const RestartedRing& ring);
    void lose_before(RestartedRing& ring);
    std::uint64_t check_record(RestartedRing& ring, UntrustedBytes& rest, std::uint64_t begin, std::uint64_t previous);

    bool is_followed_;
    bool lags_ = false;             // packets are not stored at once
    std::uint64_t refusals_ = 0;    // how many future packets are refused
    std::uint64_t until_kill_ = 0;  // so many calls of the output; 0: no kill
    std::uint64_t kills_ = 0;
    std::uint64_t taken_again_ = 0;   // records
    std::uint64_t newest_begin_ = 0;  // of any packet, ns
    std::uint64_t packets_here_ = 0;  // of this consumer
    std::uint64_t events_here_ = 0;
    std::uint64_t told_horizon_ = 0;  // to the readers of this consumer's packets
    bool is_cut_reached_ = false;     // in this drain
    bool is_ending_ = false;
    bool is_finishing_ = false;  // nothing is left but to tell what was discarded

    consumer::Consumer::Parameters parameters_;
    consumer::Progress progress_;
    std::optional<consumer::Consumer> consumer_;
};

// The same with tiny headers.
class TinyConsumerRestartModel final : public ConsumerRestartModel {
  public:
    explicit TinyConsumerRestartModel(Choose choose) : ConsumerRestartModel(std::move(choose), true) {}
};

inline ConsumerRestartModel::ConsumerRestartModel(Choose choose, bool are_tiny)
    : ModelledWriters(std::move(choose), are_tiny),
      is_followed_(choose_(2) == 1),
      progress_((add_channels(any_wake_after()), *consumer::Progress::create(ring_counts()))) {
    const std::array<std::size_t, 4> max_packet_size{~std::size_t{0}, ctf::kPacketHeaderSize + 1,
                                                     ctf::kPacketHeaderSize + 60, 4096};
    parameters_ = {.trace_uuid = {7},
                   .clock = &clock_,
                   .max_packet_size = max_packet_size[choose_(max_packet_size.size())],
                   .before_cut = [this] { return before_cut(); },
                   .progress = &progress_};
    start();
}

inline void ConsumerRestartModel::step() {
    struct Step {
        std::uint64_t weight;
        void (*take)(ConsumerRestartModel&);
    };
    static constexpr std::array kSteps{
        Step{8, [](ConsumerRestartModel& model) { model.write_some(); }},
        Step{7, [](ConsumerRestartModel& model) { model.drain(); }},
        Step{4, [](ConsumerRestartModel& model) { model.move_clock(); }},
        Step{3, [](ConsumerRestartModel& model) { model.write_late(); }},
        Step{3, [](ConsumerRestartModel& model) { model.doom(); }},
        Step{2, [](ConsumerRestartModel& model) { model.store_some(); }},
        Step{1, [](ConsumerRestartModel& model) { model.kill(); }},
        Step{1, [](ConsumerRestartModel& model) { model.claim_ring(); }},
        Step{1, [](ConsumerRestartModel& model) { model.kill_writer(); }},
        Step{1, [](ConsumerRestartModel& model) { model.discard(); }},
        Step{1, [](ConsumerRestartModel& model) { model.break_record(); }},
        Step{1, [](ConsumerRestartModel& model) { model.make_one_of_two(); }},
        Step{1, [](ConsumerRestartModel& model) { model.refuse(); }},
    };
    ++steps_;
    any_of(kSteps).take(*this);
    check_room();
}

// Consumer ------------------------------------------------------------------------------------------------------------

// A consumer may be killed while it starts, and so may the next one.
inline void ConsumerRestartModel::start() {
    consumer_.emplace(sources(), *this, parameters_);
    packets_here_ = events_here_ = refusals_ = 0;
    if (is_followed_)
        call([this] {
            if (!consumer_->announce_cpu_rings()) violate("the rings of CPUs cannot be announced");
        });
}

template <class Call>
void ConsumerRestartModel::call(const Call& call) {
    begin_call();
    try {
        call();
    } catch (const Killed&) {
        kill();
    }
}

inline void ConsumerRestartModel::drain() {
    call([this] {
        const bool is_drained = consumer_->drain().has_value();
        end_drain(is_drained);
    });
}

inline void ConsumerRestartModel::begin_call() {
    is_cut_reached_ = true;
    for (RestartedRing& ring : rings_) {
        ring.sampled = ring.header->head;
        ring.tail_before = ring.header->tail;
        ring.limit_before = ring.header->limit;
        ring.was_refused = false;
        if (!lags_) store(ring, ring.packets.size());
    }
}

// The drain had to take all that it looked at. Records after a broken one are lost with it, because nobody can tell
// where they begin.
inline void ConsumerRestartModel::end_drain(bool is_drained) {
    for (RestartedRing& ring : rings_) {
        if (is_cut_reached_ && !ring.was_refused && !ring.is_full() && ring.has_sampled()) {
            if (!ring.pending.front().is_broken) violate("{}: a record is not delivered", name_of(ring));
            while (ring.has_sampled()) ring.take(RestartedRing::kLost);
            ring.consumed = ring.sampled;
        }
        if (lags_) continue;
        store(ring, ring.packets.size());
        if (is_drained && ring.header->tail != ring.consumed)
            violate("{}: its room up to {} does not come back, only up to {}", name_of(ring), ring.consumed,
                    ring.header->tail);
    }
}

inline Result<void> ConsumerRestartModel::before_cut() {
    may_die();
    write_meanwhile();
    return {};
}

// Called after the consumer has looked at the rings twice and read the clock. Writers do not wait for it.
inline void ConsumerRestartModel::write_meanwhile() {
    if (is_ending_) return;
    if (is_one_in(8)) move_clock();
    if (is_one_in(8)) claim_ring();
    if (is_one_in(4)) write_late();
}

// What is not saved is still in the ring.
inline void ConsumerRestartModel::check_room() {
    for (const RestartedRing& ring : rings_) {
        const std::uint64_t most = saved(ring).position;
        if (ring.header->tail > most)
            violate("{}: room up to {} is given back, saved up to {}", name_of(ring), ring.header->tail, most);
        if (saved(ring).sequence_number > ring.stored && lags_)
            violate("{}: {} packets are saved, {} stored", name_of(ring), saved(ring).sequence_number, ring.stored);
    }
}

inline void ConsumerRestartModel::finish() {
    is_ending_ = true;
    lags_ = false;
    for (int i = 0; i < 3; ++i) {
        drain_all();
        doom();
        finish_consumer();
    }
    drain_all();
    finish_consumer();
    check_balance();
}

// At least once, as hosts do before they finish.
inline void ConsumerRestartModel::drain_all() {
    refusals_ = until_kill_ = 0;
    const auto has_pending = [](const RestartedRing& ring) { return !ring.pending.empty(); };
    drain();
    for (int i = 0; i < 10'000 && std::ranges::any_of(rings_, has_pending); ++i) drain();
}

inline void ConsumerRestartModel::finish_consumer() {
    call([this] {
        is_finishing_ = true;
        if (!consumer_->finish()) violate("it does not finish");
    });
    is_finishing_ = false;
}

inline void ConsumerRestartModel::check_balance() {
    for (const RestartedRing& ring : rings_) {
        if (ring.committed != ring.all_delivered() + ring.all_lost())
            violate("{}: {} committed, {} delivered + {} lost", name_of(ring), ring.committed, ring.all_delivered(),
                    ring.all_lost());
        const std::uint64_t told = ring.packets.empty() ? 0 : ring.packets.back().discards;
        if (told != ring.discarded + ring.all_lost())
            violate("{}: {} discarded + {} lost, the packets tell of {}", name_of(ring), ring.discarded,
                    ring.all_lost(), told);
    }
    for (std::uint32_t channel = 0; channel < channels_.size(); ++channel) {
        const std::uint64_t delivered = sum(&RestartedRing::all_delivered, channel);
        const std::uint64_t lost = sum(&RestartedRing::all_lost, channel);
        if (consumer_->events(channel) != delivered || consumer_->unreadable(channel) != lost)
            violate("channel {}: {} delivered and {} lost, the consumer tells of {} and {}", channel, delivered, lost,
                    consumer_->events(channel), consumer_->unreadable(channel));
    }
    std::uint64_t discarded = lost();
    for (const RestartedRing& ring : rings_) discarded += ring.discarded;
    if (consumer_->unreadable() != lost() || consumer_->discarded() != discarded)
        violate("{} lost and {} discarded, the consumer tells of {} and {}", lost(), discarded, consumer_->unreadable(),
                consumer_->discarded());
    const consumer::Totals& totals = consumer_->totals();
    if (totals.events != events_here_ || totals.packets != packets_here_ || totals.left_in_rings != 0)
        violate("the totals are {} events, {} packets, {} left", totals.events, totals.packets, totals.left_in_rings);
    for (const std::string& why : consumer_->quarantined()) violate("{}", why);
}

// Kills ---------------------------------------------------------------------------------------------------------------

inline void ConsumerRestartModel::doom() { until_kill_ = 1 + choose_(choose_(2) == 0 ? 4 : 30); }

inline void ConsumerRestartModel::may_die() {
    if (until_kill_ != 0 && --until_kill_ == 0) throw Killed();
}

inline void ConsumerRestartModel::kill() {
    ++kills_;
    is_finishing_ = false;
    for (RestartedRing& ring : rings_) kill(ring);
    told_horizon_ = 0;
    // Readers begin anew, and hear nothing of what the one before has announced.
    if (is_one_in(4)) doom();
    if (is_one_in(4)) write_late();
    consumer_.reset();
    progress_ = *consumer::Progress::adopt(UniqueFd(::dup(progress_.fd())), ring_counts());
    start();
}

// What the next consumer does not look at must be in a packet that stays, or counted. What it looks at must not be in
// one.
inline void ConsumerRestartModel::kill(RestartedRing& ring) {
    const consumer::StreamProgress progress = saved(ring);
    if (progress.sequence_number > (lags_ ? ring.stored : ring.packets.size()))
        violate("{}: {} packets are saved, {} stored", name_of(ring), progress.sequence_number, ring.stored);
    if (!ring.pending.empty() && ring.pending.front().position < progress.position)
        violate("{}: a record at {} is forgotten", name_of(ring), ring.pending.front().position);
    for (; !ring.taken.empty() && ring.taken.front().record.position < progress.position; ring.taken.pop_front()) {
        const RestartedRing::Taken& taken = ring.taken.front();
        const bool is_lost = taken.packet == RestartedRing::kLost;
        if (taken.record.end > progress.position) violate("{}: {} is in a record", name_of(ring), progress.position);
        if (!is_lost && taken.packet >= progress.sequence_number)
            violate("{}: a record at {} goes with packet {}", name_of(ring), taken.record.position, taken.packet);
        ring.delivered += is_lost ? 0 : 1;
        ring.lost += RestartedRing::lost_of(taken);
    }
    for (; !ring.taken.empty(); ring.taken.pop_back(), ++taken_again_) {
        RestartedRing::Taken& taken = ring.taken.back();
        if (taken.packet < progress.sequence_number)
            violate("{}: a record at {} comes twice", name_of(ring), taken.record.position);
        ring.pending.push_front(std::move(taken.record));
    }
    ring.consumed = progress.position;
    ring.planned_at.clear();
    for (const consumer::PlannedPacket& packet : progress_.planned(ring.id)) {
        ring.planned_at[packet.before.sequence_number] = packet.before.position;
        for (WrittenRing::Record& record : ring.pending)
            record.is_planned |= record.end <= packet.before.position + packet.size - ctf::kPacketHeaderSize;
    }
    for (std::uint64_t number = progress.sequence_number; number < ring.packets.size(); ++number)
        ring.known.insert_or_assign(number, ring.packets[number]);
    ring.packets.resize(std::min<std::size_t>(progress.sequence_number, ring.packets.size()));
    ring.stored = ring.packets.size();
    ring.is_announced = false;
    ring.beacon = 0;
    // It was saved, and its room was not given back yet.
    const std::uint64_t head = ring.header->head;
    if (is_one_in(4) && head <= ring.limit_before && ring.limit_before <= ring.tail_before + kSize) {
        ring.header->tail = ring.tail_before;
        ring.header->limit = ring.limit_before;
    }
}

// Output --------------------------------------------------------------------------------------------------------------

inline Result<void> ConsumerRestartModel::write_packet(const consumer::Packet& packet) {
    may_die();
    const ctf::PacketHeader header = in_ns(packet.header);
    RestartedRing* const found = find(packet.stream);
    if (found == nullptr || header.stream_instance_id != packet.stream.ring) {
        violate("a packet of ring {} of channel {}, which says {}", packet.stream.ring, packet.stream.channel,
                header.stream_instance_id);
        return {};
    }
    RestartedRing& ring = *found;
    lose_before(ring);
    if (refusals_ > 0) {
        --refusals_;
        ring.was_refused = true;
        // Packets without records come before the cut, except those that begin a stream whose records are unreadable,
        // and those that come again.
        is_cut_reached_ &=
            !packet.records.empty() || ring.packets.empty() || ring.planned_at.contains(ring.packets.size());
        return fail(ErrorKind::kIo, "no space left on device");
    }
    check_room();
    check_bounds(ring, header);
    check_records(ring, packet);
    newest_begin_ = std::max(newest_begin_, header.timestamp_begin);
    std::vector<std::byte> sent = packet.late_records;
    const UntrustedBytes others = packet.other_records();
    sent.insert(sent.end(), others.begin(), others.end());
    ring.packets.push_back({.begin = header.timestamp_begin,
                            .end = header.timestamp_end,
                            .discards = header.events_discarded,
                            .records = packet.records,
                            .copy = {packet.records.begin(), packet.records.end()},
                            .sent = std::move(sent)});
    check_known(ring);
    ++packets_here_;
    events_here_ += packet.events;
    may_die();
    if (!lags_) ring.stored = ring.packets.size();
    write_meanwhile();
    return {};
}

// What was given up in front of a packet is given up again before that packet comes, and is told of in it.
inline void ConsumerRestartModel::lose_before(RestartedRing& ring) {
    const auto planned = ring.planned_at.find(ring.packets.size());
    if (planned == ring.planned_at.end() || !ring.has_sampled() || ring.pending.front().position >= planned->second)
        return;
    if (!ring.pending.front().is_broken) violate("{}: a record is not delivered", name_of(ring));
    while (ring.has_sampled() && ring.pending.front().position < planned->second) ring.take(RestartedRing::kLost);
}

// A packet that readers may have comes again as it was: they drop one whose number they know.
inline void ConsumerRestartModel::check_known(const RestartedRing& ring) {
    const RestartedRing::KeptPacket& packet = ring.packets.back();
    const auto found = ring.known.find(ring.packets.size() - 1);
    if (found == ring.known.end()) return;
    const RestartedRing::KeptPacket& known = found->second;
    if (packet.begin != known.begin || packet.end != known.end || packet.discards != known.discards ||
        packet.sent != known.sent)
        violate("{}: packet {} from {} to {}, {} discarded, {} bytes; it was from {} to {}, {} discarded, {} bytes",
                name_of(ring), found->first, packet.begin, packet.end, packet.discards, packet.sent.size(), known.begin,
                known.end, known.discards, known.sent.size());
}

inline void ConsumerRestartModel::check_bounds(const RestartedRing& ring, const ctf::PacketHeader& header) {
    if (!ring.is_announced) violate("{}: a packet, and it was not announced", name_of(ring));
    if (ring.is_full()) violate("{}: too many packets are not stored", name_of(ring));
    if (header.packet_seq_num != ring.packets.size())
        violate("{}: packet {} comes as the {}th", name_of(ring), header.packet_seq_num, ring.packets.size());
    // The clock stands still, but each packet begins later than the one before, and new streams begin where others are.
    const std::uint64_t latest = std::max(now_, newest_begin_ + trace_clock().cycle());
    if (header.timestamp_begin < ring.beacon || header.timestamp_begin > latest)
        violate("{}: a packet begins at {}, the beacon was {}, and it is {}", name_of(ring), header.timestamp_begin,
                ring.beacon, now_);
    if (!ring.packets.empty() && header.timestamp_begin <= ring.packets.back().begin)
        violate("{}: a packet begins at {}, and the one before at {}", name_of(ring), header.timestamp_begin,
                ring.packets.back().begin);
    const std::uint64_t most = ring.discarded + ring.all_lost();
    if (ring.packets.empty()) {
        if (header.events_discarded != 0)
            violate("{}: the first packet tells of {} discarded", name_of(ring), header.events_discarded);
        return;
    }
    const RestartedRing::KeptPacket& last = ring.packets.back();
    if (header.timestamp_begin < last.end)
        violate("{}: a packet begins at {}, the one before ends at {}", name_of(ring), header.timestamp_begin,
                last.end);
    if (header.events_discarded < last.discards || header.events_discarded > most)
        violate("{}: {} discarded, {} before, {} in all", name_of(ring), header.events_discarded, last.discards, most);
    if (is_finishing_ && header.events_discarded == last.discards)
        violate("{}: the last packet tells nothing", name_of(ring));
}

inline void ConsumerRestartModel::check_records(RestartedRing& ring, const consumer::Packet& packet) {
    const ctf::PacketHeader header = in_ns(packet.header);
    std::vector<std::byte> bytes = packet.late_records;
    const UntrustedBytes others = packet.other_records();
    bytes.insert(bytes.end(), others.begin(), others.end());
    std::uint64_t time = header.timestamp_begin;
    std::uint64_t records = 0;
    for (UntrustedBytes rest(bytes); !rest.empty() && violation_.empty(); ++records)
        time = check_record(ring, rest, header.timestamp_begin, time);
    if (records != packet.events) violate("{}: {} events, not {}", name_of(ring), records, packet.events);
    if (time != header.timestamp_end)
        violate("{}: a packet ends at {}, its last record at {}", name_of(ring), header.timestamp_end, time);
}

// Decodes a record as a reader does, checks it, and returns its time.
inline std::uint64_t ConsumerRestartModel::check_record(RestartedRing& ring, UntrustedBytes& rest, std::uint64_t begin,
                                                        std::uint64_t previous) {
    if (!ring.has_sampled() || ring.pending.front().is_broken) {
        violate("{}: a record that nobody wrote", name_of(ring));
        return previous;
    }
    const WrittenRing::Record& record = ring.pending.front();
    const std::size_t size = record.end - record.position;
    if (rest.size() < size) {
        violate("{}: a record is cut in two", name_of(ring));
        return previous;
    }
    const DecodedHeader decoded = decode_header(channel_of(ring).layout, rest, previous);
    const auto* const payload = reinterpret_cast<const char*>(rest.data()) + record.header_size();  // NOLINT
    if (decoded.id != record.id || std::string_view(payload, record.payload.size()) != record.payload)
        violate("{}: a record of class {} at {} is not what was written", name_of(ring), decoded.id, record.position);
    if (decoded.time != std::max(whole(record.time), begin))
        violate("{}: a record of {} comes as {}, in a packet that begins at {}", name_of(ring), record.time,
                decoded.time, begin);
    if (decoded.time < previous || decoded.time < ring.beacon || decoded.time < told_horizon_)
        violate("{}: a record of {} after {}, beacon {}, horizon {}", name_of(ring), decoded.time, previous,
                ring.beacon, told_horizon_);
    rest = rest.subspan(size);
    ring.take(ring.packets.size());
    return decoded.time;
}

inline Result<void> ConsumerRestartModel::announce(std::span<const consumer::StreamId> ids) {
    may_die();
    for (const consumer::StreamId id : ids) {
        RestartedRing* const ring = find(id);
        if (ring == nullptr || ring->is_announced)
            violate("ring {} of channel {} is announced", id.ring, id.channel);
        else
            ring->is_announced = true;
    }
    return {};
}

inline void ConsumerRestartModel::write_beacon(consumer::StreamId id, std::uint64_t cycles) {
    const std::uint64_t timestamp = in_ns(cycles);
    may_die();
    check_room();
    RestartedRing* const ring = find(id);
    if (ring == nullptr || !ring->is_announced)
        return violate("a beacon of ring {} of channel {}", id.ring, id.channel);
    const std::uint64_t end = ring->packets.empty() ? 0 : ring->packets.back().end;
    if (timestamp <= ring->beacon || timestamp < end)
        violate("{}: beacon {} after {}", name_of(*ring), timestamp, std::max(ring->beacon, end));
    ring->beacon = timestamp;
    may_die();
}

inline void ConsumerRestartModel::cycle_done(std::uint64_t cycles) {
    const std::uint64_t horizon = in_ns(cycles);
    may_die();
    if (horizon < told_horizon_) violate("horizon {} after {}", horizon, told_horizon_);
    told_horizon_ = horizon;
    may_die();
}

inline std::uint64_t ConsumerRestartModel::stored(consumer::StreamId id) const {
    if (!lags_) return kNever;
    return std::ranges::find(rings_, id, &RestartedRing::id)->stored;
}

inline void ConsumerRestartModel::refuse() { refusals_ = choose_(3); }

inline void ConsumerRestartModel::store_some() {
    if (is_one_in(4)) lags_ = !lags_;
    for (RestartedRing& ring : rings_) {
        const std::size_t unstored = ring.packets.size() - ring.stored;
        store(ring, lags_ ? std::min<std::size_t>(choose_(4), unstored) : unstored);
    }
}

// Checks packets that were sent straight from the ring: their bytes must not have changed.
inline void ConsumerRestartModel::store(RestartedRing& ring, std::size_t packets) {
    for (; packets != 0 && ring.stored < ring.packets.size(); --packets) {
        const RestartedRing::KeptPacket& packet = ring.packets[ring.stored++];
        if (lags_ && !std::equal(packet.records.begin(), packet.records.end(), packet.copy.begin()))
            violate("{}: packet {} was written over", name_of(ring), ring.stored - 1);
    }
}

}  // namespace leat::test
