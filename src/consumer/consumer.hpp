#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "consumer/output.hpp"
#include "ctf/record_walker.hpp"
#include "ring/clock_page.hpp"
#include "ring/ring_set.hpp"

namespace leat::consumer {

// What has gone through so far.
struct Totals {
    std::uint64_t events = 0;
    std::uint64_t bytes = 0;  // of packets
    std::uint64_t packets = 0;
    std::uint64_t streams = 0;        // with at least one packet
    std::uint64_t left_in_rings = 0;  // events that finish() found: the output did not take them, or they came too late
};

// Slices what the rings hold into packets. An engine: it owns no thread and never waits; whoever hosts it calls
// drain(), when the doorbell rings and now and then. One thread.
//
// The rings are the memory of what the output has not stored yet: room goes back to the writers only behind that.
class Consumer {
  public:
    struct Parameters {
        ctf::Uuid trace_uuid;
        std::uint64_t stream_class_id;
        // Ring the doorbell when a ring holds this many bytes; 0: at every event after a drain that found nothing.
        std::uint64_t wake_after;
        // The writers' clock, for beacons and the horizon; none: nothing is said about time. Outlives the consumer.
        const ring::ClockPage* clock = nullptr;
        // Bytes of a packet: what a ring holds beyond that goes into the next one. A larger record is a packet of its
        // own.
        std::size_t max_packet_size = ~std::size_t{0};
    };

    // Packets of one stream that wait to be stored. Behind these nothing is cut: the bytes gather for a larger packet.
    static constexpr std::size_t kMaxUnstored = 64;

    // All three outlive the consumer.
    Consumer(const ring::RingSet& rings, const ctf::RecordWalker& walker, Output& output, const Parameters& parameters);

    // For sessions that are read while they run: announces the rings of all CPUs, each with a packet without events.
    // Readers wait until every stream has said something, and LTTng's relay takes beacons only behind a packet.
    Result<void> announce_cpu_rings();

    // One turn over all rings. What the output does not take stays in the rings for the next turn; the first such
    // failure is returned. Nothing of one ring's trouble reaches the others.
    Result<void> drain();

    // After a drain: whether to drain again soon, as no doorbell may ring: there was something, and more is likely.
    // Bells are armed by a drain that found nothing, and then it takes another one:
    //
    //     writer: reads limit, not armed yet
    //     consumer: arms the bell; head has not moved
    //     writer: commits its record, and rings no bell
    //
    // A restartable sequence takes some ten ns, so the next drain sees that record.
    [[nodiscard]] bool wants_drain() const { return wants_drain_; }

    // Whether rings hold what was not cut, because too many of their packets are not stored.
    [[nodiscard]] bool is_blocked() const;

    // After the last drain: tells, by a packet without events, what was discarded since the last packet of a stream,
    // and counts what the rings still hold.
    Result<void> finish();

    [[nodiscard]] const Totals& totals() const { return totals_; }
    [[nodiscard]] std::uint64_t discarded() const;
    [[nodiscard]] std::uint64_t discarded(ring::DiscardReason reason) const;
    // Rings that broke the format, in words; nothing more is read from them.
    [[nodiscard]] const std::vector<std::string>& quarantined() const { return quarantined_; }

  private:
    struct Unstored {
        std::uint64_t sequence_number;
        std::uint64_t end;  // position in the ring behind the packet's records
    };
    struct Stream {
        ring::RingReader reader;
        std::uint32_t ring;
        bool is_quarantined = false;
        bool is_announced = false;
        bool is_quiet = false;  // in this cycle: all that was committed before the horizon has been cut
        ring::Published sample{};
        std::uint64_t timestamp = 0;    // ns: nothing older comes, the next packet begins here
        std::uint64_t told = 0;         // ns: the end of the last packet, or a later beacon
        std::uint64_t last_record = 0;  // ns: the next record's short header counts from there
        std::uint64_t sequence_number = 0;
        // Read when the packet before was cut: what was discarded by then lies behind that packet's last record.
        std::uint64_t discarded = 0;
        std::uint64_t discarded_told = 0;  // in a packet
        std::deque<Unstored> unstored{};

        [[nodiscard]] bool is_full() const { return unstored.size() >= kMaxUnstored; }
        [[nodiscard]] bool has_records() const { return !is_quarantined && !sample.records.empty(); }
    };

    void sample();
    void sample(Stream& stream);
    Result<void> announce_new_streams();
    Result<void> announce(std::span<const std::uint64_t> rings);
    Result<void> begin_part();
    Result<void> cut();
    Result<void> cut(Stream& stream);
    Result<void> cut_packet(Stream& stream);
    [[nodiscard]] ctf::RecordWalker::Part next_part(const Stream& stream) const;
    void tell_horizon();
    [[nodiscard]] bool needs_beacon(const Stream& stream, std::uint64_t beacon) const;
    void arm(Stream& stream) const;
    void forget_stored(Stream& stream) const;
    Result<void> finish(Stream& stream);
    Result<void> write_empty(Stream& stream);
    Result<void> write(Stream& stream, UntrustedBytes records, std::uint64_t events, std::uint64_t last_timestamp);
    [[nodiscard]] ctf::RecordHeaderBytes header_for_late_record(const Stream& stream, UntrustedBytes records) const;
    void quarantine(Stream& stream, const std::string& why);

    ctf::RecordWalker const* walker_;
    Output* output_;
    Parameters parameters_;
    std::vector<Stream> streams_;
    std::uint32_t cpu_rings_ = 0;
    bool is_followed_ = false;  // by readers while it runs
    std::uint64_t part_ = 0;
    std::uint64_t now_ = 0;     // ns: between the two looks of this cycle
    std::uint64_t newest_ = 0;  // ns: the latest end of any packet
    bool wants_drain_ = false;
    bool are_armed_ = true;  // the bells of all rings
    Totals totals_;
    std::vector<std::string> quarantined_;
};

}  // namespace leat::consumer
