#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
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
// When the time of the first changes, it meets those on its way to the top again: one comparison a level, and no branch
// that a processor would have to guess.
class LoserTree {
  public:
    struct Entry {
        std::int64_t time_ns;
        std::uint64_t source;
    };
    // A source that has come to its end: behind all others.
    static constexpr Entry kEnded{INT64_MAX, std::numeric_limits<std::uint64_t>::max()};

    LoserTree() = default;
    // The sources in the order of their numbers, from 0.
    explicit LoserTree(const std::vector<Entry>& sources) : losers_(sources.size()) {
        if (sources.empty()) return;
        std::vector<Entry> winners(sources.size());
        winners.insert(winners.end(), sources.begin(), sources.end());
        for (std::size_t node = sources.size() - 1; node > 0; --node) {
            losers_[node] = winners[2 * node + 1];
            winners[node] = winners[2 * node];
            put_first(winners[node], losers_[node]);
        }
        first_ = winners[1];
    }

    [[nodiscard]] const Entry& first() const { return first_; }
    [[nodiscard]] bool has_ended() const { return first_.source == kEnded.source; }

    // The first, which has not ended, gets this time, or ends.
    void replace_first(std::int64_t time_ns) { meet({time_ns, first_.source}); }
    void end_first() { meet(kEnded); }

  private:
    void meet(Entry entry) {
        for (std::size_t node = (losers_.size() + first_.source) / 2; node > 0; node /= 2)
            put_first(entry, losers_[node]);
        first_ = entry;
    }

    // Whichever is the earlier becomes `first`.
    static void put_first(Entry& first, Entry& second) {
        const std::uint64_t mask = 0 - static_cast<std::uint64_t>(key_of(second) < key_of(first));
        const std::uint64_t time = static_cast<std::uint64_t>(first.time_ns ^ second.time_ns) & mask;
        const std::uint64_t source = (first.source ^ second.source) & mask;
        first.time_ns ^= static_cast<std::int64_t>(time);
        second.time_ns ^= static_cast<std::int64_t>(time);
        first.source ^= source;
        second.source ^= source;
    }

    // As one number, which is compared without a branch.
    static __int128 key_of(const Entry& entry) { return static_cast<__int128>(entry.time_ns) << 64U | entry.source; }

    std::vector<Entry> losers_;  // that of node n at n; the first place is empty
    Entry first_ = kEnded;
};

}  // namespace leat::viewer
