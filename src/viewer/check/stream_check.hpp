#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "ctf/decode/trace_plans.hpp"
#include "ctf/model/trace_class.hpp"
#include "viewer/check/check_progress.hpp"
#include "viewer/check/finding.hpp"
#include "viewer/merge/message.hpp"
#include "viewer/read/packet_reader.hpp"
#include "viewer/read/recorded_trace.hpp"

namespace leat::viewer {

using BadPackets = std::set<std::pair<const RecordedFile*, std::uint64_t>>;  // with their offsets

// Reads a stream as viewers do, and tells which packets would stop them or would be told at a wrong time. Of two that
// overlap, the one that ends first stays: so most of all packets do.
//
//     A |----------------------|  its end is damaged: B and C stay
//     B    |----|
//     C              |-----|
//
// Of a packet that is in several files, as in those of overlapping snapshots, one that can be read is read; those that
// are not equal to it are bad.
class StreamCheck {
  public:
    // All must outlive the check.
    StreamCheck(const ctf::TraceClass& trace_class, const ctf::DecodePlan& plan, BadPackets& bad, Findings& findings,
                CheckProgress& progress)
        : trace_class_(&trace_class), plan_(&plan), bad_(&bad), findings_(&findings), progress_(&progress) {}

    StreamCheck(const StreamCheck&) = delete;
    StreamCheck& operator=(const StreamCheck&) = delete;

    // All packets of the stream, in the order of sort_packets().
    void run(std::span<const RecordedPacket> packets);

    // Of the packets that viewers read of what is left.
    [[nodiscard]] std::uint64_t packets() const { return packets_; }
    [[nodiscard]] std::uint64_t events() const { return now_.events; }

  private:
    // The stream up to some packet.
    struct ReadSoFar {
        explicit ReadSoFar(const StreamIdentity& stream) : reader(stream) {}

        PacketReader reader;
        std::int64_t last_ns = INT64_MIN;
        std::uint64_t events = 0;
    };

    Result<void> take(const RecordedPacket& packet);
    void take_again(const RecordedPacket& packet);
    Result<void> read(ReadSoFar& so_far, const RecordedPacket& packet) const;
    void drop(const RecordedPacket& packet, std::string why);

    const ctf::TraceClass* trace_class_;
    const ctf::DecodePlan* plan_;
    BadPackets* bad_;
    Findings* findings_;
    CheckProgress* progress_;
    StreamIdentity identity_{};
    ReadSoFar before_{identity_};
    ReadSoFar now_{identity_};                     // before_, and one packet more
    std::vector<const RecordedPacket*> latest_{};  // that packet, and its equal twins
    const RecordedPacket* before_latest_ = nullptr;
    std::uint64_t packets_ = 0;
};

}  // namespace leat::viewer
