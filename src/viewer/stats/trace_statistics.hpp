#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "viewer/merge/message.hpp"
#include "viewer/read/event_decoder.hpp"
#include "viewer/read/recent_packets.hpp"
#include "viewer/stats/losses.hpp"

namespace leat::viewer {

// What there is in traces: events by name, process and CPU; what was lost.
class TraceStatistics {
  public:
    struct Count {
        std::uint64_t events = 0;
        std::uint64_t bits = 0;  // of records, without what aligns them

        [[nodiscard]] std::uint64_t bytes() const { return bits / 8; }
    };
    // Contexts of events, or, of traces of one process, what the trace says of itself. Those that are too many to be
    // told apart are "(others)".
    struct Process {
        std::optional<std::int64_t> vpid{};
        std::string name{};

        auto operator<=>(const Process&) const = default;
    };
    Result<void> add(const PacketView& packet, const ctf::EventPlace& place);
    void add_loss(const Message& message) { losses_.add(message); }

    [[nodiscard]] const Count& all() const { return all_; }
    [[nodiscard]] const std::map<std::string, Count>& by_name() const { return by_name_; }
    [[nodiscard]] const std::map<Process, Count>& by_process() const { return by_process_; }
    [[nodiscard]] const std::map<std::int64_t, Count>& by_cpu() const { return by_cpu_; }
    [[nodiscard]] const Losses& losses() const { return losses_; }
    // Times of the first and the last event; none: there is no event with a time.
    [[nodiscard]] const std::optional<std::pair<std::int64_t, std::int64_t>>& span_ns() const { return span_ns_; }

  private:
    // Of a plan.
    struct PlanState {
        std::vector<Count*> names{};  // by the number of the event
        bool has_process = false;
        bool has_cpu = false;
    };

    // Of a packet.
    struct Cpu {
        bool is_known = false;
        Count* count = nullptr;
    };

    PlanState& state_of(const PacketView& packet);
    Result<Count*> cpu_of(const PacketView& packet);
    Count* process_of(const PacketView& packet, const ctf::EventRecord& event);

    Count all_{};
    std::map<std::string, Count> by_name_{};
    std::map<Process, Count> by_process_{};
    std::map<std::int64_t, Count> by_cpu_{};
    Losses losses_{};
    std::optional<std::pair<std::int64_t, std::int64_t>> span_ns_{};
    EventDecoder decoder_{};
    std::unordered_map<std::uint64_t, PlanState> plans_{};  // by their numbers
    RecentPackets<Cpu> cpus_{};
    // The process of the latest event: most events share it with the one before.
    Process process_{};
    Count* process_count_ = nullptr;
};

}  // namespace leat::viewer
