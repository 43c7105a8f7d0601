#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace leat::ctf {

struct EnumRange;

// Finds the labels of a value in an enum with many ranges, which may all overlap. It is built once for each enum, in
// O(n log n), and shared by the copies of that enum; a lookup takes a binary search.
//
//   ranges     a = 1 ... 3, b = 2 ... 5
//   starts_    1     2     4     6
//   labels     a     a b   b     -
//
// A label is known by the number of the first range that has it, so it takes the ranges to know its text.
class EnumLabels {
  public:
    // With fewer ranges than this, a linear search is as good.
    static constexpr std::size_t kMinRanges = 17;
    // find() returns at most so many labels for one value.
    static constexpr std::size_t kMaxFound = 64;

    // Returns null if the index would take more than `max_bytes`, because too many ranges overlap.
    static std::shared_ptr<const EnumLabels> make(const std::vector<EnumRange>& ranges, bool is_signed,
                                                  std::size_t max_bytes);

    struct Found {
        std::span<const std::uint32_t> labels;  // ascending: in the order of their first declaration
        bool has_more = false;
    };
    [[nodiscard]] Found find(std::uint64_t value) const;

    // Finds the label with this text. `ranges` are those given to make(), or a copy of them.
    [[nodiscard]] std::optional<std::uint32_t> label(const std::vector<EnumRange>& ranges, std::string_view text) const;

    [[nodiscard]] std::size_t size_bytes() const;

  private:
    struct Bound;
    class Sweep;

    // Maps values to unsigned numbers of the same order.
    [[nodiscard]] std::uint64_t key_of(std::uint64_t value) const { return is_signed_ ? value ^ kSignBit : value; }
    std::vector<std::uint32_t> number_labels(const std::vector<EnumRange>& ranges);

    static constexpr std::uint64_t kSignBit = std::uint64_t{1} << 63U;

    bool is_signed_ = false;
    std::vector<std::uint32_t> by_text_;  // label numbers, ordered by their texts
    // In the interval that begins at starts_[i], the labels are labels_[begins_[i]] to labels_[begins_[i + 1]].
    std::vector<std::uint64_t> starts_;
    std::vector<std::uint32_t> begins_;
    std::vector<bool> has_more_;
    std::vector<std::uint32_t> labels_;
};

}  // namespace leat::ctf
