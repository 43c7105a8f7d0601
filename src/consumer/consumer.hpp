#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "consumer/output.hpp"
#include "ctf/record_walker.hpp"
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
class Consumer {
  public:
    struct Parameters {
        ctf::Uuid trace_uuid;
        std::uint64_t stream_class_id;
        // Ring the doorbell when a ring holds this many bytes; 0: at every event after a drain.
        std::uint64_t wake_after;
    };

    // All three outlive the consumer.
    Consumer(const ring::RingSet& rings, const ctf::RecordWalker& walker, Output& output, const Parameters& parameters);

    // One turn over all rings. What the output does not take stays in the rings for the next turn; the first such
    // failure is returned. Nothing of one ring's trouble reaches the others.
    Result<void> drain();

    // After the last drain: tells, by a packet without events, what was discarded since the last packet of a stream,
    // and counts what the rings still hold.
    Result<void> finish();

    [[nodiscard]] const Totals& totals() const { return totals_; }
    [[nodiscard]] std::uint64_t discarded() const;
    [[nodiscard]] std::uint64_t discarded(ring::DiscardReason reason) const;
    // Rings that broke the format, in words; nothing more is read from them.
    [[nodiscard]] const std::vector<std::string>& quarantined() const { return quarantined_; }

  private:
    struct Stream {
        ring::RingReader reader;
        std::uint32_t ring;
        bool is_quarantined = false;
        std::uint64_t timestamp = 0;  // where the last packet ended, ns
        std::uint64_t sequence_number = 0;
        // Read when the packet before was cut: what was discarded by then lies behind that packet's last record.
        std::uint64_t discarded = 0;
        std::uint64_t discarded_told = 0;  // in a packet
    };

    Result<void> drain(Stream& stream);
    Result<void> finish(Stream& stream);
    Result<void> write(Stream& stream, UntrustedBytes records, std::uint64_t timestamp_end);
    void quarantine(Stream& stream, const std::string& why);

    ctf::RecordWalker const* walker_;
    Output* output_;
    Parameters parameters_;
    std::vector<Stream> streams_;
    Totals totals_;
    std::vector<std::string> quarantined_;
};

}  // namespace leat::consumer
