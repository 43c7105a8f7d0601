#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.hpp"
#include "ctf/decode/event_record.hpp"
#include "viewer/merge/message.hpp"
#include "viewer/read/event_decoder.hpp"
#include "viewer/timeline/slice_rules.hpp"

namespace leat::viewer {

// A row on which events are shown: a thread of a process, a CPU where threads are not known, or a stream where that is
// not known either, or a lane, which has slices of a key, one after the other.
struct Track {
    enum class Kind : std::uint8_t { kProcess, kThread, kCpu, kLane };

    Kind kind = Kind::kThread;
    std::uint64_t id = 0;       // from 1 on
    std::uint64_t process = 0;  // the process's track; 0: none
    std::int64_t pid = 0;       // the process's; a number of our own where two hosts have the same
    std::int64_t tid = 0;       // of threads
    std::string name{};
};

// Where a time line goes: a format that other viewers read.
class TimelineWriter {
  public:
    virtual ~TimelineWriter() = default;

    // Before the first event on it, and after the track of its process.
    virtual void track(const Track& track) = 0;
    // `event`: whose fields are shown; null: nothing is known of this begin or end but its time.
    virtual void event(const Track& track, Phase phase, std::int64_t time_ns, std::string_view title,
                       const ctf::EventRecord* event) = 0;
};

// Puts events on tracks, and makes slices of them:
//
//     process 42 bash
//         thread 42   |== read ==|   . malloc
//         thread 43        |=== read ===|
//         io:queued   |=== id 7 ===|   |= id 9 =|     lanes: slices of a key may overlap
//         io:queued        |== id 8 ==|
class Timeline {
  public:
    Timeline(std::vector<SliceRule> rules, TimelineWriter& writer);

    // Events in the order of their times. Those without a time are passed over.
    Result<void> add(const PacketView& packet, const ctf::EventPlace& place);
    [[nodiscard]] std::uint64_t events() const { return events_; }
    [[nodiscard]] std::uint64_t without_time() const { return without_time_; }
    // Slices that were ended to make room for others.
    [[nodiscard]] std::uint64_t given_up() const { return given_up_; }
    // Slices of CPUs, or of streams, within a process whose events do not tell their threads.
    [[nodiscard]] std::uint64_t without_thread() const { return without_thread_; }
    // Events of threads that have no track of their own, as there are too many. They are part of no slice.
    [[nodiscard]] std::uint64_t on_others() const { return on_others_; }

  private:
    struct ThreadKey {
        std::size_t place = 0;  // of place_of()
        std::optional<std::int64_t> pid{};
        std::optional<std::int64_t> tid{};
        std::optional<std::int64_t> cpu{};       // without a tid
        const StreamIdentity* stream = nullptr;  // without both

        auto operator<=>(const ThreadKey&) const = default;
    };
    struct KeyedRule {
        struct Open {
            Track* lane;
            std::uint64_t number;
        };
        using OpenSlices = std::map<std::string, Open>;

        SliceRule rule;
        EventExpression key;
        OpenSlices open{};                              // by place, process and key
        std::map<std::uint64_t, std::string> oldest{};  // their keys, in the order of their begins
        std::uint64_t begun = 0;
        std::map<std::uint64_t, std::vector<Track*>> free{};  // the lanes that are free, by the process
    };
    // What an event class is. Which contexts it has: those that are looked for in vain cost much.
    struct Role {
        struct Keyed {
            std::size_t rule = 0;
            Phase phase = Phase::kInstant;
        };

        bool is_known = false;
        // Ends before begins: an event may be the end of a slice, and the begin of the next.
        std::vector<Keyed> keyed{};
        std::vector<NamedPhase> nested{};
        const ValuePath* pid = nullptr;
        const ValuePath* tid = nullptr;
        bool has_name = false;
        bool has_cpu = false;
        bool has_packet_cpu = false;
    };
    // Of a stream: the CPU of its latest packet.
    struct PacketCpu {
        std::uint64_t packet = 0;
        std::optional<std::int64_t> cpu{};
    };

    const Role& role_of(const PacketView& packet, const ctf::EventPlace& place);
    [[nodiscard]] Role make_role(const PacketView& packet, const ctf::EventClass& event_class);
    void add_nested_roles(const PacketView& packet, const std::string& name, Role& role);
    bool is_ended(const ctf::TraceClass& trace_class, std::string_view title);
    std::optional<std::int64_t> cpu_of(const Role& role, const PacketView& packet, const ctf::EventRecord& event);
    std::size_t place_of(const ctf::TraceClass& trace_class);
    ThreadKey key_of_thread(const Role& role, const PacketView& packet, const ctf::EventRecord& event);
    Track& thread_of(const Role& role, const PacketView& packet, const ctf::EventRecord& event);
    Track& make_thread(const ThreadKey& key, std::string_view name, const PacketView& packet);
    Track& make_cpu(const ThreadKey& key, std::string_view name, const PacketView& packet);
    Track& process_of(const ThreadKey& key, std::string_view name, const ctf::TraceClass& trace_class);
    Track& others();
    Track& make_track(Track track);
    bool add_nested(const NamedPhase& role, const Track& thread, std::int64_t time_ns, const ctf::EventRecord& event);
    Result<bool> add_keyed(const Role::Keyed& role, const Track& thread, const PacketView& packet,
                           const ctf::EventPlace& place, const ctf::EventRecord& event);
    void end_keyed(KeyedRule& rule, KeyedRule::OpenSlices::iterator open, std::int64_t time_ns,
                   const ctf::EventRecord* event);
    Track& lane_of(KeyedRule& rule, std::uint64_t process);

    std::vector<SliceRule> nested_{};
    std::vector<KeyedRule> keyed_{};
    TimelineWriter& writer_;
    EventDecoder decoder_{};
    std::unordered_map<std::uint64_t, std::vector<Role>> roles_{};  // by the numbers of plan and event
    std::unordered_map<const StreamIdentity*, PacketCpu> cpus_{};
    std::optional<std::string> first_host_{};
    std::map<std::string, std::size_t> place_numbers_{};
    std::unordered_map<const ctf::TraceClass*, std::size_t> places_{};
    std::map<ThreadKey, Track*> threads_{};
    std::map<ThreadKey, Track*> processes_{};                                         // without a thread
    Track* others_ = nullptr;                                                         // of threads that are too many
    std::set<std::int64_t> pids_{};                                                   // that are shown
    std::map<std::uint64_t, std::vector<std::string_view>> open_{};                   // titles of slices, by the track
    std::unordered_map<const ctf::TraceClass*, std::set<std::string_view>> ended_{};  // titles that names end
    std::vector<std::unique_ptr<Track>> tracks_{};
    std::uint64_t events_ = 0;
    std::uint64_t without_time_ = 0;
    std::uint64_t given_up_ = 0;
    std::uint64_t without_thread_ = 0;
    std::uint64_t on_others_ = 0;
};

}  // namespace leat::viewer
