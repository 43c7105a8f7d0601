#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/byte_cursor.hpp"
#include "base/result.hpp"
#include "ctf/decode/trace_plans.hpp"
#include "ctf/model/trace_class.hpp"
#include "viewer/check/check_progress.hpp"
#include "viewer/check/finding.hpp"
#include "viewer/read/recorded_trace.hpp"

namespace leat::viewer {

// What packets begin with if their header is {magic, uuid} ([CTF-1.8], section 5.1), as that of all tracers is. Else
// nothing.
std::vector<std::byte> packet_begin_of(const ctf::TraceClass& trace_class);

// Finds the packets of a stream's file that are whole: all their events can be found. Behind what is damaged, a packet
// begins where the next magic number and the trace's UUID are.
//
//     packet | packet | damaged ... | packet | cut short
//     whole    whole    lost          whole    lost
class PacketSearch {
  public:
    // All must outlive the search. `packet_begin`: empty if there is nothing to search for.
    PacketSearch(ctf::TracePlans& plans, std::span<const std::byte> packet_begin, const RecordedFile& file,
                 Findings& findings, CheckProgress& progress)
        : plans_(&plans), packet_begin_(packet_begin), file_(&file), findings_(&findings), progress_(&progress) {}

    // In the order of their places, and all of one stream class: that of most.
    std::vector<RecordedPacket> run();
    // That of the packets; null: there are none.
    [[nodiscard]] const ctf::DecodePlan* plan() const { return plan_; }

  private:
    struct Candidate {
        RecordedPacket packet;
        const ctf::DecodePlan* plan;
        std::uint64_t begin;  // cycles
    };

    void find_all();
    // `clock`: cycles; narrow times go on from there, as they do for viewers from the begin of the packet before.
    // `not_before`: ns. Earlier ones are refused.
    Result<Candidate> whole_packet(std::uint64_t offset, std::uint64_t clock,
                                   std::optional<std::int64_t> not_before = {});
    std::optional<std::uint64_t> packet_inside(const Candidate& outer);
    [[nodiscard]] std::uint64_t next_begin(std::uint64_t from, std::uint64_t end) const;
    [[nodiscard]] UntrustedBytes bytes() const { return file_->mapping.bytes(); }
    std::vector<RecordedPacket> of_one_class();
    void note_damage(std::uint64_t offset, std::string what);

    ctf::TracePlans* plans_;
    std::span<const std::byte> packet_begin_;
    const RecordedFile* file_;
    Findings* findings_;
    CheckProgress* progress_;
    const ctf::DecodePlan* plan_ = nullptr;
    std::vector<Candidate> found_{};
    std::uint64_t claimed_until_ = 0;  // how far the packet goes, as it says, that was tried last
    std::uint64_t told_until_ = 0;     // up to here, damage is that of a packet that was told already
    std::uint64_t work_ = 0;           // bytes that were read of what turned out to be damaged
};

}  // namespace leat::viewer
