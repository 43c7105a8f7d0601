#include "viewer/merge/live_merge.hpp"

#include <algorithm>
#include <utility>

namespace leat::viewer {
namespace {

// A message without a time comes first.
std::int64_t time_of(const LiveStream& stream) { return stream.message().time_ns.value_or(INT64_MIN); }

bool is_later(const std::shared_ptr<LiveStream>& left, const std::shared_ptr<LiveStream>& right) {
    return time_of(*left) > time_of(*right);
}

}  // namespace

Result<bool> LiveMerge::next() {
    if (is_told_) LEAT_TRY(advance_first());
    if (ready_.empty() || time_of(*ready_.front()) > limit_ns_) return false;
    is_told_ = true;
    if (message().kind == Message::Kind::kEvent) {
        const std::int64_t time_ns = message().time_ns.value_or(newest_ns_);
        if (time_ns < newest_ns_) ++late_events_;
        newest_ns_ = std::max(newest_ns_, time_ns);
    }
    return true;
}

Result<void> LiveMerge::advance_first() {
    is_told_ = false;
    std::ranges::pop_heap(ready_, is_later);
    auto advanced = ready_.back()->advance();
    if (ready_.back()->has_message()) {
        std::ranges::push_heap(ready_, is_later);
    } else {
        std::shared_ptr<LiveStream> stream = std::move(ready_.back());
        ready_.pop_back();
        hold_back(std::move(stream));
    }
    return advanced;
}

void LiveMerge::hold_back(std::shared_ptr<LiveStream> stream) {
    if (stream->is_finished()) return;
    limit_ns_ = std::min(limit_ns_, stream->horizon_ns());
    waiting_.push_back(std::move(stream));
}

void LiveMerge::refresh() {
    limit_ns_ = INT64_MAX;
    for (std::shared_ptr<LiveStream>& stream : std::exchange(waiting_, {})) {
        if (stream->has_message()) {
            ready_.push_back(std::move(stream));
            std::ranges::push_heap(ready_, is_later);
        } else {
            hold_back(std::move(stream));
        }
    }
}

}  // namespace leat::viewer
