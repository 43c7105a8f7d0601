#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
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

// A row on which events are shown: a thread of a process, a CPU where processes are not known, or a lane, which has
// slices of a key, one after the other.
struct Track {
    enum class Kind : std::uint8_t { kProcess, kThread, kCpu, kLane };

    Kind kind = Kind::kThread;
    std::uint64_t id = 0;       // from 1 on
    std::uint64_t process = 0;  // its track, of threads and lanes; 0: none
    std::int64_t pid = 0;       // of processes and threads
    std::int64_t tid = 0;       // of threads
    std::string name{};
};

// Where a time line goes: a format that other viewers read.
class TimelineWriter {
  public:
    virtual ~TimelineWriter() = default;

    // Before the first event on it, and after the track of its process.
    virtual void track(const Track& track) = 0;
    virtual void event(const Track& track, Phase phase, std::int64_t time_ns, std::string_view title,
                       const ctf::EventRecord& event) = 0;
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

  private:
    struct ThreadKey {
        std::string host{};
        std::optional<std::int64_t> pid{};
        std::int64_t tid = 0;  // or the CPU, without a process

        auto operator<=>(const ThreadKey&) const = default;
    };
    struct KeyedRule {
        SliceRule rule;
        EventExpression key;
        std::unordered_map<std::string, Track*> open{};       // the lanes that are taken, by the key
        std::map<std::uint64_t, std::vector<Track*>> free{};  // the others, by the process
    };
    // What an event class is.
    struct Role {
        enum class Kind : std::uint8_t { kUnknown, kByName, kNested, kKeyed };

        Kind kind = Kind::kUnknown;
        Phase phase = Phase::kInstant;
        std::size_t rule = 0;
        std::string_view title{};
    };

    const Role& role_of(const PacketView& packet, const ctf::EventPlace& place);
    Track& thread_of(const PacketView& packet, const ctf::EventRecord& event);
    Track& process_of(const ThreadKey& key, std::string_view name);
    Track& make_track(Track track);
    Result<bool> add_keyed(const Role& role, const Track& thread, const PacketView& packet,
                           const ctf::EventPlace& place, const ctf::EventRecord& event);
    Track& lane_of(KeyedRule& rule, std::uint64_t process);

    std::vector<SliceRule> nested_{};
    std::vector<KeyedRule> keyed_{};
    TimelineWriter& writer_;
    EventDecoder decoder_{};
    std::unordered_map<std::uint64_t, std::vector<Role>> roles_{};  // by the numbers of plan and event
    std::map<ThreadKey, Track*> threads_{};
    std::map<ThreadKey, Track*> processes_{};          // with thread 0
    std::map<std::uint64_t, std::uint64_t> depths_{};  // slices that are open, by their track
    std::vector<std::unique_ptr<Track>> tracks_{};
    std::uint64_t events_ = 0;
    std::uint64_t without_time_ = 0;
};

}  // namespace leat::viewer
