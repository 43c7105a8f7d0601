#include "viewer/merge/time_slice.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

namespace leat::viewer {
namespace {

std::uint64_t distance_between(std::int64_t begin_ns, std::int64_t end_ns) {
    return static_cast<std::uint64_t>(end_ns) - static_cast<std::uint64_t>(begin_ns);
}

}  // namespace

bool TimeSlice::fill(std::span<const FoundRun> runs, std::int64_t from_ns, Limit limit) {
    constexpr std::uint64_t kMostDistance = UINT32_MAX;
    clear();
    begin_ns_ = INT64_MAX;
    std::size_t found = 0;
    for (const FoundRun& run : runs) {
        if (run.next == nullptr) continue;
        begin_ns_ = std::min(begin_ns_, run.next->time_ns);
        found += run.size();
    }
    taken_.assign(runs.size(), 0);
    if (found == 0) return true;
    if (begin_ns_ < from_ns) return false;
    if (limit.time_ns < begin_ns_) return true;
    if (distance_between(begin_ns_, limit.time_ns) > kMostDistance)
        limit = {begin_ns_ + static_cast<std::int64_t>(kMostDistance), SIZE_MAX};
    if (keys_.size() < found) {
        keys_.resize(found);
        others_.resize(found);
    }
    const std::uint64_t greatest = distance_between(begin_ns_, limit.time_ns);
    for (std::size_t stream = 0; stream < runs.size(); ++stream) {
        if (runs[stream].next == nullptr || take(runs, stream, greatest + (stream <= limit.stream ? 1 : 0))) continue;
        clear();
        return false;
    }
    sort(greatest);
    return true;
}

// Of one run, all that are less than so many ns from the begin.
bool TimeSlice::take(std::span<const FoundRun> runs, std::size_t stream, std::uint64_t distances) {
    const FoundRun& run = runs[stream];
    const std::uint64_t first_key = static_cast<std::uint64_t>(stream) << kPlaceBits;
    const std::size_t most = run.size();
    std::uint64_t* const keys = keys_.data() + size_;
    std::int64_t before_ns = run.next->time_ns;
    std::size_t count = 0;
    for (; count < most; ++count) {
        const std::int64_t time_ns = run.next[count].time_ns;
        if (time_ns < before_ns) return false;
        const std::uint64_t distance = distance_between(begin_ns_, time_ns);
        if (distance >= distances) break;
        before_ns = time_ns;
        keys[count] = distance << kDistanceShift | first_key | count;
    }
    size_ += count;
    taken_[stream] = static_cast<std::uint16_t>(count);
    return true;
}

// The keys come in the order of streams and places, and each turn keeps the order of those that have the same digit.
void TimeSlice::sort(std::uint64_t greatest) {
    const unsigned bits = std::max(1U, static_cast<unsigned>(std::bit_width(greatest)));
    const unsigned digits = (bits + kMostDigitBits - 1) / kMostDigitBits;
    const unsigned digit_bits = (bits + digits - 1) / digits;
    for (unsigned digit = 0; digit < digits; ++digit) sort_by_digit(kDistanceShift + digit * digit_bits, digit_bits);
}

void TimeSlice::sort_by_digit(unsigned shift, unsigned bits) {
    const std::uint64_t mask = (std::uint64_t{1} << bits) - 1;
    std::array<std::uint32_t, std::size_t{1} << kMostDigitBits> places{};
    const std::span<const std::uint64_t> keys = std::span(keys_).first(size_);
    for (const std::uint64_t key : keys) ++places[key >> shift & mask];
    std::uint32_t place = 0;
    for (std::uint32_t& count : std::span(places).first(mask + 1)) place += std::exchange(count, place);
    std::uint64_t* const others = others_.data();
    for (const std::uint64_t key : keys) others[places[key >> shift & mask]++] = key;
    keys_.swap(others_);
}

std::span<const FoundEvent> TimeSlice::tell(std::span<const FoundRun> runs, std::span<FoundEvent> batch) {
    constexpr std::uint64_t kPlaceMask = (std::uint64_t{1} << kPlaceBits) - 1;
    const std::size_t count = std::min(size(), batch.size());
    const std::uint64_t* const keys = keys_.data() + next_;
    for (std::size_t i = 0; i < count; ++i) {
        const FoundRun& run = runs[static_cast<std::uint32_t>(keys[i]) >> kPlaceBits];
        const ctf::EventPlace* const place = run.next + (keys[i] & kPlaceMask);
        // It was found a while ago: whoever looks at it soon shall not wait.
        __builtin_prefetch(place);
        batch[i] = {run.packet, place};
    }
    next_ += count;
    return batch.first(count);
}

void TimeSlice::pass(std::span<FoundRun> runs) const {
    for (std::size_t stream = 0; stream < runs.size(); ++stream)
        if (taken_[stream] != 0) runs[stream].begin_at(runs[stream].next + taken_[stream]);
}

}  // namespace leat::viewer
