#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <tuple>
#include <vector>

namespace leat::viewer {

// Which of some sources is the first by time; of those of one time, the one with the smallest number. Each inner node
// keeps the one that lost there, and the first lost nowhere ([Knuth-3], 5.4.1):
//
//                  first: 1
//              [1]:  2                 1 met 2 here
//          [2]: 0        [3]: 3        1 met 0, and 2 met 3
//        0       1     2       3       the sources
//
// When the time of the first changes, it meets those on its way to the top again. Each level waits for the one below.
// So a node has one number, of which the lesser goes on and the greater stays, without a branch that a processor would
// have to guess:
//
//     | distance from the base, in ns | source |     the source has the bits that the number of sources needs
//
// Those that are too far away for that are behind all others. When their turn comes, the base moves, which costs as
// much as to build the tree. As long as no time goes back, that happens about once for each source at most, if each is
// that far from the others.
class LoserTree {
  public:
    struct Entry {
        std::int64_t time_ns;
        std::uint64_t source;
    };
    // A source that has come to its end: behind all others.
    static constexpr Entry kEnded{INT64_MAX, std::numeric_limits<std::uint64_t>::max()};
    static constexpr std::int64_t kNoTime = INT64_MIN;  // before all others

    LoserTree() = default;
    // The sources in the order of their numbers, from 0.
    explicit LoserTree(const std::vector<Entry>& sources) : far_times_ns_(sources.size()) {
        if (sources.empty()) return;
        // A power of two: all ways to the top are equally long, so that a processor need not guess where they end.
        losers_.resize(std::bit_ceil(sources.size()));
        source_bits_ = static_cast<unsigned>(std::countr_zero(losers_.size()));
        build(sources);
    }

    [[nodiscard]] Entry first() const { return entry_of(first_); }
    // Unless all have ended.
    [[nodiscard]] std::uint64_t first_source() const { return source_of(first_); }
    // No other source comes before this time.
    [[nodiscard]] std::int64_t others_from_ns() const {
        std::uint64_t key = kEndedKey;
        for (std::size_t node = parent_of(first_source()); node > 0; node /= 2) key = std::min(key, losers_[node]);
        return is_far(key) ? last_near_ns_ + 1 : entry_of(key).time_ns;  // of those far away, it may be another one
    }
    [[nodiscard]] bool has_ended() const { return first_ == kEndedKey; }

    // The first, which has not ended, gets this time, or ends.
    void replace_first(std::int64_t time_ns) { replace_first_with({time_ns, first_source()}); }
    void end_first() { replace_first_with(kEnded); }

    // Like replace_first(), where the first has a time, and the new one is not before that; false, and nothing has
    // changed, if it is too far away. Calls nothing: so a loop around it can have all of this in registers.
    [[nodiscard, gnu::always_inline]] bool delay_first(std::int64_t time_ns) {
        if (time_ns > last_near_ns_) return false;
        meet(near_key(time_ns, first_source()));
        return true;
    }

  private:
    static constexpr std::uint64_t kEndedKey = std::numeric_limits<std::uint64_t>::max();

    void replace_first_with(const Entry& entry) {
        if (entry.time_ns < base_ns_ && entry.time_ns != kNoTime) return move_base(entry);
        if (entry.source != kEnded.source && !is_near(entry.time_ns)) far_times_ns_[entry.source] = entry.time_ns;
        meet(key_of(entry));
        if (is_far(first_)) move_base(first());
    }

    // `in_place_of_first`: where that source is now.
    void move_base(const Entry& in_place_of_first) {
        std::vector<Entry> entries{in_place_of_first};
        for (std::size_t node = 1; node < losers_.size(); ++node) entries.push_back(entry_of(losers_[node]));
        build(entries);
    }

    // Of all sources, in any order.
    void build(const std::vector<Entry>& entries) {
        std::int64_t first_ns = INT64_MAX;
        for (const Entry& entry : entries)
            if (entry.time_ns != kNoTime) first_ns = std::min(first_ns, entry.time_ns);
        // Some sources may tell of an earlier time after they have told of what has none.
        const std::int64_t room = std::int64_t{1} << (62 - source_bits_);
        base_ns_ = std::max(first_ns, kNoTime + 1 + room) - room;
        const std::uint64_t behind = static_cast<std::uint64_t>(INT64_MAX) - static_cast<std::uint64_t>(base_ns_);
        last_near_ns_ = time_at(std::min(behind + 1, far_distance() - 1));
        const std::size_t leaves = losers_.size();
        std::vector<std::uint64_t> winners(2 * leaves, kEndedKey);
        for (const Entry& entry : entries) {
            if (entry.source == kEnded.source) continue;
            winners[leaves + entry.source] = key_of(entry);
            far_times_ns_[entry.source] = entry.time_ns;
        }
        for (std::size_t node = leaves - 1; node > 0; --node)
            std::tie(winners[node], losers_[node]) = std::minmax(winners[2 * node], winners[2 * node + 1]);
        first_ = winners[1];
    }

    [[gnu::always_inline]] void meet(std::uint64_t key) {
        for (std::size_t node = parent_of(first_source()); node > 0; node /= 2) {
            const std::uint64_t other = losers_[node];
            const std::uint64_t least = std::min(key, other);
            losers_[node] = key ^ other ^ least;
            key = least;
        }
        first_ = key;
    }

    [[nodiscard]] std::size_t parent_of(std::uint64_t source) const { return (losers_.size() + source) / 2; }

    // The distance in a key is 0 without a time, else 1 and more; its two greatest values mean "far away" and "ended".
    [[nodiscard]] std::uint64_t source_of(std::uint64_t key) const { return key & ~(kEndedKey << source_bits_); }
    [[nodiscard]] std::uint64_t far_distance() const { return (kEndedKey >> source_bits_) - 1; }
    [[nodiscard]] bool is_far(std::uint64_t key) const { return key >> source_bits_ == far_distance(); }
    [[nodiscard]] bool is_near(std::int64_t time_ns) const { return time_ns >= base_ns_ && time_ns <= last_near_ns_; }
    [[nodiscard]] std::int64_t time_at(std::uint64_t distance) const {
        return static_cast<std::int64_t>(static_cast<std::uint64_t>(base_ns_) + distance - 1);
    }

    // The time is added last: a processor knows the source earlier.
    [[nodiscard]] std::uint64_t near_key(std::int64_t time_ns, std::uint64_t source) const {
        const std::uint64_t of_source = source - ((static_cast<std::uint64_t>(base_ns_) - 1) << source_bits_);
        return (static_cast<std::uint64_t>(time_ns) << source_bits_) + of_source;
    }
    // Not of a time in front of the base.
    [[nodiscard]] std::uint64_t key_of(const Entry& entry) const {
        if (entry.source == kEnded.source) return kEndedKey;
        if (entry.time_ns == kNoTime) return entry.source;
        if (!is_near(entry.time_ns)) return far_distance() << source_bits_ | entry.source;
        return near_key(entry.time_ns, entry.source);
    }
    [[nodiscard]] Entry entry_of(std::uint64_t key) const {
        if (key == kEndedKey) return kEnded;
        const std::uint64_t source = source_of(key);
        const std::uint64_t distance = key >> source_bits_;
        if (distance == 0) return {kNoTime, source};
        if (distance == far_distance()) return {far_times_ns_[source], source};
        return {time_at(distance), source};
    }

    std::vector<std::uint64_t> losers_;       // that of node n at n; the first place is empty
    std::vector<std::int64_t> far_times_ns_;  // of each source, if it is too far away
    unsigned source_bits_ = 0;
    std::int64_t base_ns_ = 0;
    std::int64_t last_near_ns_ = 0;
    std::uint64_t first_ = kEndedKey;
};

}  // namespace leat::viewer
