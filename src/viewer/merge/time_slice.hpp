#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "viewer/merge/found_run.hpp"
#include "viewer/merge/message.hpp"

namespace leat::viewer {

// Events of many streams, from a time to another, in the order of a merge: oldest first, and of one age that of the
// first stream. They are sorted by digits of their times ([Knuth-3], 5.2.5), which takes the same few steps for each
// event however many streams there are:
//
//     stream 0: 3 5 7 | 9        what was found; before the limit all is known, so that may be told
//     stream 1: 1 6   | 8 9      -->  1/1 3/0 4/2 5/0 6/1 7/0
//     stream 2: 4     | 9
//
// A key is 32 bits of time since the first event, and where the event is:
//
//     | distance, in ns | stream | place in its run |
class TimeSlice {
  public:
    // The last place in the order up to which all is known: a time, and a stream.
    struct Limit {
        std::int64_t time_ns = INT64_MAX;
        std::size_t stream = SIZE_MAX;

        auto operator<=>(const Limit&) const = default;
    };

    static constexpr std::size_t kMostOfRun = 256;  // events that may be found in one stream at once
    static constexpr std::size_t kMostStreams = std::size_t{1} << 24U;

    // Takes what comes up to the limit from all runs, one of each stream. False, and it has nothing: time goes back in
    // one, or behind `from_ns`, and so they have no order.
    [[nodiscard]] bool fill(std::span<const FoundRun> runs, std::int64_t from_ns, Limit limit);
    void clear() { next_ = size_ = 0; }

    [[nodiscard]] bool is_told() const { return next_ == size_; }
    // That are not told.
    [[nodiscard]] std::size_t size() const { return size_ - next_; }
    // Puts the next ones into the batch, as many as it has room for. Returns them.
    [[nodiscard]] std::span<const FoundEvent> tell(std::span<const FoundRun> runs, std::span<FoundEvent> batch);
    // Lets the runs begin behind what was taken from them.
    void pass(std::span<FoundRun> runs) const;

  private:
    static constexpr unsigned kPlaceBits = 8;
    static constexpr unsigned kDistanceShift = 32;
    static constexpr unsigned kMostDigitBits = 11;

    [[nodiscard]] bool take(std::span<const FoundRun> runs, std::size_t stream, std::uint64_t distances);
    void sort(std::uint64_t greatest);
    void sort_by_digit(unsigned shift, unsigned bits);

    std::int64_t begin_ns_ = 0;
    std::vector<std::uint64_t> keys_;
    std::vector<std::uint64_t> others_;  // for a turn of sorting
    std::vector<std::uint16_t> taken_;   // of each run
    std::size_t size_ = 0;
    std::size_t next_ = 0;
};

}  // namespace leat::viewer
