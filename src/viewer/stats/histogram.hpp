#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace leat::viewer {

// How often values occur, to within 3.2 %: values up to 63 have a bucket each, larger ones share it with those of the
// same five leading bits behind the first.
class Histogram {
  public:
    void add(std::uint64_t value);

    [[nodiscard]] std::uint64_t count() const { return count_; }
    [[nodiscard]] std::uint64_t least() const { return count_ == 0 ? 0 : least_; }
    [[nodiscard]] std::uint64_t most() const { return most_; }
    [[nodiscard]] double mean() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }
    // The value that this share of all values, 0 to 1, does not exceed; the highest of its bucket, but not above
    // most().
    [[nodiscard]] std::uint64_t quantile(double share) const;

    // Values whose highest bit is the same: 0, 1, 2 to 3, 4 to 7, ...
    struct Octave {
        std::uint64_t lowest;
        std::uint64_t highest;
        std::uint64_t count;
    };
    // From the first that is not empty to the last that is not.
    [[nodiscard]] std::vector<Octave> octaves() const;

  private:
    std::vector<std::uint64_t> buckets_{};
    std::uint64_t count_ = 0;
    std::uint64_t least_ = UINT64_MAX;
    std::uint64_t most_ = 0;
    double sum_ = 0;
};

}  // namespace leat::viewer
