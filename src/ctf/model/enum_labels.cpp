#include "ctf/model/enum_labels.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

#include "ctf/model/field_class.hpp"

namespace leat::ctf {

// The value at which a range of a label begins, or the first value after a range.
struct EnumLabels::Bound {
    std::uint64_t key;
    std::uint32_t label;
    bool is_begin;
};

// Walks the bounds upwards and knows which labels apply between two of them.
class EnumLabels::Sweep {
  public:
    explicit Sweep(std::size_t ranges) : ranges_of_(ranges) {}

    void pass(const Bound& bound) {
        std::uint32_t& ranges = ranges_of_[bound.label];
        if (bound.is_begin) {
            if (ranges++ == 0) labels_.insert(bound.label);
        } else if (--ranges == 0) {
            labels_.erase(bound.label);
        }
    }
    [[nodiscard]] const std::set<std::uint32_t>& labels() const { return labels_; }

  private:
    std::vector<std::uint32_t> ranges_of_;  // how many ranges of each label the sweep is in
    std::set<std::uint32_t> labels_;
};

std::shared_ptr<const EnumLabels> EnumLabels::make(const std::vector<EnumRange>& ranges, bool is_signed,
                                                   std::size_t max_bytes) {
    const auto made = std::make_shared<EnumLabels>();
    made->is_signed_ = is_signed;
    const std::vector<std::uint32_t> labels = made->number_labels(ranges);
    std::vector<Bound> bounds;
    bounds.reserve(2 * ranges.size());
    for (std::size_t i = 0; i < ranges.size(); ++i) {
        bounds.push_back({made->key_of(ranges[i].lower), labels[i], true});
        const std::uint64_t last = made->key_of(ranges[i].upper);
        if (last != std::numeric_limits<std::uint64_t>::max()) bounds.push_back({last + 1, labels[i], false});
    }
    std::ranges::sort(bounds, {}, &Bound::key);
    Sweep sweep(ranges.size());
    for (std::size_t i = 0; i < bounds.size(); ++i) {
        sweep.pass(bounds[i]);
        if (i + 1 < bounds.size() && bounds[i + 1].key == bounds[i].key) continue;
        made->starts_.push_back(bounds[i].key);
        made->begins_.push_back(static_cast<std::uint32_t>(made->labels_.size()));
        made->has_more_.push_back(sweep.labels().size() > kMaxFound);
        for (const std::uint32_t label : sweep.labels()) {
            if (made->labels_.size() - made->begins_.back() == kMaxFound) break;
            made->labels_.push_back(label);
        }
        if (made->size_bytes() > max_bytes) return nullptr;
    }
    made->begins_.push_back(static_cast<std::uint32_t>(made->labels_.size()));
    return made;
}

// Returns the label number of each range.
std::vector<std::uint32_t> EnumLabels::number_labels(const std::vector<EnumRange>& ranges) {
    std::vector<std::uint32_t> order(ranges.size());
    std::iota(order.begin(), order.end(), 0U);
    std::ranges::stable_sort(order, {}, [&](std::uint32_t i) -> const std::string& { return ranges[i].label; });
    std::vector<std::uint32_t> labels(ranges.size());
    for (const std::uint32_t range : order) {
        if (by_text_.empty() || ranges[by_text_.back()].label != ranges[range].label) by_text_.push_back(range);
        labels[range] = by_text_.back();
    }
    return labels;
}

EnumLabels::Found EnumLabels::find(std::uint64_t value) const {
    const auto after = std::ranges::upper_bound(starts_, key_of(value));
    if (after == starts_.begin()) return {};
    const auto at = static_cast<std::size_t>(after - starts_.begin()) - 1;
    return {std::span(labels_).subspan(begins_[at], begins_[at + 1] - begins_[at]), has_more_[at]};
}

std::optional<std::uint32_t> EnumLabels::label(const std::vector<EnumRange>& ranges, std::string_view text) const {
    const auto text_of = [&](std::uint32_t label) -> std::string_view { return ranges[label].label; };
    const auto found = std::ranges::lower_bound(by_text_, text, {}, text_of);
    return found != by_text_.end() && text_of(*found) == text ? std::optional(*found) : std::nullopt;
}

std::size_t EnumLabels::size_bytes() const {
    return (by_text_.size() + begins_.size() + labels_.size()) * sizeof(std::uint32_t) +
           starts_.size() * sizeof(std::uint64_t);
}

}  // namespace leat::ctf
