#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "viewer/filter/event_expression.hpp"
#include "viewer/merge/message.hpp"
#include "viewer/stats/histogram.hpp"

namespace leat::viewer {

// Measures how long it takes from one event to another of the same key:
//
//     queued (id 1)   queued (id 2)   completed (id 1)    completed (id 2)
//     |---------------------------------> id 1
//                     |----------------------------------> id 2
class IntervalMeter {
  public:
    // Names are patterns. The key is all that these say together: without any, each event ends what the latest one has
    // begun.
    // `most_open`: one more that begins ends the oldest.
    IntervalMeter(std::string from, std::string to, std::vector<EventExpression> keys,
                  std::size_t most_open = std::size_t{1} << 20U)
        : from_(std::move(from)), to_(std::move(to)), keys_(std::move(keys)), most_open_(most_open) {}

    // An error names a field of the key that no event of these traces can have.
    [[nodiscard]] Result<void> check(std::span<const ctf::TraceClass* const> trace_classes) const {
        for (const EventExpression& key : keys_) LEAT_TRY(key.check(trace_classes));
        return {};
    }
    // Events in the order of their times.
    Result<void> add(const PacketView& packet, const ctf::EventPlace& place);

    [[nodiscard]] const Histogram& histogram() const { return histogram_; }  // ns
    // Begun and not ended, or begun again before they ended.
    [[nodiscard]] std::uint64_t open() const { return open_.size() + repeated_ + forgotten_; }
    // Of these: ended to make room for others.
    [[nodiscard]] std::uint64_t forgotten() const { return forgotten_; }
    [[nodiscard]] std::uint64_t ended_without_begin() const { return without_begin_; }
    // Events that would begin or end one, but do not have the key.
    [[nodiscard]] std::uint64_t without_key() const { return without_key_; }

  private:
    enum class Role : std::uint8_t { kUnknown, kNone, kFrom, kTo, kBoth };
    struct Open {
        std::int64_t time_ns;
        std::uint64_t number;
    };

    Role role_of(const PacketView& packet, const ctf::EventPlace& place);
    Result<std::optional<std::string>> key_of(const PacketView& packet, const ctf::EventPlace& place);
    void forget(std::map<std::string, Open>::iterator open);

    std::string from_;
    std::string to_;
    std::vector<EventExpression> keys_;
    std::size_t most_open_;
    std::unordered_map<std::uint64_t, std::vector<Role>> roles_{};  // by the numbers of plan and event
    std::map<std::string, Open> open_{};                            // by their keys
    std::map<std::uint64_t, const std::string*> oldest_{};          // these keys, in the order of their begins
    std::uint64_t begun_ = 0;
    std::uint64_t forgotten_ = 0;
    std::uint64_t repeated_ = 0;
    std::uint64_t without_begin_ = 0;
    std::uint64_t without_key_ = 0;
    Histogram histogram_{};
};

}  // namespace leat::viewer
