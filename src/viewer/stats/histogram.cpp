#include "viewer/stats/histogram.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace leat::viewer {
namespace {

constexpr unsigned kBits = 5;  // behind the first
constexpr std::uint64_t kInOctave = std::uint64_t{1} << kBits;

std::size_t bucket_of(std::uint64_t value) {
    if (value < 2 * kInOctave) return static_cast<std::size_t>(value);
    const unsigned shift = static_cast<unsigned>(std::bit_width(value)) - kBits - 1;
    return static_cast<std::size_t>(shift * kInOctave + (value >> shift));
}

std::uint64_t highest_of(std::size_t bucket) {
    if (bucket < 2 * kInOctave) return bucket;
    const auto shift = static_cast<unsigned>(bucket / kInOctave - 1);
    return ((bucket % kInOctave + kInOctave + 1) << shift) - 1;
}

}  // namespace

void Histogram::add(std::uint64_t value) {
    const std::size_t bucket = bucket_of(value);
    if (bucket >= buckets_.size()) buckets_.resize(bucket + 1);
    ++buckets_[bucket];
    ++count_;
    least_ = std::min(least_, value);
    most_ = std::max(most_, value);
    sum_ += static_cast<double>(value);
}

std::uint64_t Histogram::quantile(double share) const {
    const auto wanted = static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(count_)));
    std::uint64_t seen = 0;
    for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
        seen += buckets_[bucket];
        if (seen >= std::max<std::uint64_t>(wanted, 1)) return std::min(highest_of(bucket), most_);
    }
    return most_;
}

std::vector<Histogram::Octave> Histogram::octaves() const {
    std::vector<Octave> found;
    for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
        const std::uint64_t highest = highest_of(bucket);
        const auto width = static_cast<unsigned>(std::bit_width(highest));
        if (found.empty() && buckets_[bucket] == 0) continue;
        if (found.empty() || found.back().highest < highest) {
            const std::uint64_t lowest = width == 0 ? 0 : std::uint64_t{1} << (width - 1);
            found.push_back({lowest, width == 0 ? 0 : lowest - 1 + lowest, 0});
        }
        found.back().count += buckets_[bucket];
    }
    return found;
}

}  // namespace leat::viewer
