#include "viewer/sink/found_labels.hpp"

#include <algorithm>

namespace leat::viewer {
namespace {

bool is_in_range(std::uint64_t number, const ctf::EnumRange& range, bool is_signed) {
    return ctf::is_at_most(range.lower, number, is_signed) && ctf::is_at_most(number, range.upper, is_signed);
}

}  // namespace

FoundLabels::FoundLabels(std::uint64_t number, const ctf::EnumClass& enumeration) {
    if (enumeration.is_bit_map)
        find_bits(number, enumeration);
    else if (enumeration.labels == nullptr)
        find_few(number, enumeration);
    else
        found_ = enumeration.labels->find(number);
}

void FoundLabels::find_few(std::uint64_t number, const ctf::EnumClass& enumeration) {
    const auto& ranges = enumeration.ranges;
    for (const ctf::EnumRange& range : ranges) {
        if (!is_in_range(number, range, enumeration.container.is_signed)) continue;
        const auto first = std::ranges::find(ranges, range.label, &ctf::EnumRange::label) - ranges.begin();
        const auto end = few_.begin() + static_cast<std::ptrdiff_t>(count_);
        const auto place = std::lower_bound(few_.begin(), end, static_cast<std::uint32_t>(first));
        if (count_ == few_.size() || (place != end && *place == first)) continue;
        std::copy_backward(place, end, end + 1);
        *place = static_cast<std::uint32_t>(first);
        ++count_;
    }
}

void FoundLabels::find_bits(std::uint64_t bits, const ctf::EnumClass& map) {
    for (std::uint32_t i = 0; i < map.ranges.size(); ++i) {
        if ((bits & map.ranges[i].lower) == 0) continue;
        found_.has_more = count_ == few_.size();
        if (found_.has_more) return;
        few_[count_++] = i;
    }
}

}  // namespace leat::viewer
