#include "viewer/merge/merge.hpp"

#include <algorithm>
#include <string>

#include "viewer/read/clock_agreement.hpp"

namespace leat::viewer {

Result<Merge> Merge::make(const std::vector<std::unique_ptr<RecordedTrace>>& traces) {
    ClockAgreement agreement;
    for (const auto& trace : traces)
        for (const RecordedStream& stream : trace->streams())
            if (stream.plan->clock != nullptr) LEAT_TRY(agreement.add(trace->trace_class(), *stream.plan->clock));
    return Merge(traces);
}

Merge::Merge(const std::vector<std::unique_ptr<RecordedTrace>>& traces) {
    for (const auto& trace : traces)
        for (const RecordedStream& stream : trace->streams()) readers_.emplace_back(*trace, stream);
}

Result<bool> Merge::next() {
    if (!has_begun_) {
        has_begun_ = true;
        for (std::size_t reader = 0; reader < readers_.size(); ++reader) {
            heap_.push_back(reader);
            LEAT_TRY(advance_last());
        }
    } else {
        std::ranges::pop_heap(heap_, [this](auto left, auto right) { return is_later(left, right); });
        LEAT_TRY(advance_last());
    }
    if (heap_.empty()) return false;
    LEAT_TRY(check_order());
    return true;
}

Result<void> Merge::advance_last() {
    if (LEAT_TRY(readers_[heap_.back()].next()))
        std::ranges::push_heap(heap_, [this](auto left, auto right) { return is_later(left, right); });
    else
        heap_.pop_back();
    return {};
}

bool Merge::is_later(std::size_t left, std::size_t right) const {
    // A message without a time comes first.
    const std::int64_t left_ns = readers_[left].message().time_ns.value_or(INT64_MIN);
    const std::int64_t right_ns = readers_[right].message().time_ns.value_or(INT64_MIN);
    return left_ns != right_ns ? left_ns > right_ns : left > right;
}

Result<void> Merge::check_order() {
    const std::int64_t time_ns = message().time_ns.value_or(now_ns_);
    if (time_ns < now_ns_)
        return corrupt("{}: time goes back by {} ns, from one message of the trace to the next", message().stream->name,
                       static_cast<std::uint64_t>(now_ns_) - static_cast<std::uint64_t>(time_ns));
    now_ns_ = time_ns;
    return {};
}

}  // namespace leat::viewer
