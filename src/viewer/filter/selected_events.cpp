#include "viewer/filter/selected_events.hpp"

#include <algorithm>

namespace leat::viewer {

Result<SelectedEvents> SelectedEvents::make(const RecordedTraces& traces, const Selection& selection,
                                            Merge::Order order) {
    if (const auto filter = selection.filter()) LEAT_TRY(filter->check(classes_of(traces)));
    const auto is_timeless = [](const auto& trace) {
        return std::ranges::any_of(trace->streams(), [](const auto& stream) { return stream.plan->clock == nullptr; });
    };
    if (selection.range.is_bounded() && std::ranges::any_of(traces, is_timeless))
        return refused("a range of times is of no use: there are events without a time");
    std::optional<StreamIntersection> intersection;
    if (selection.is_of_all_streams) intersection = LEAT_TRY(StreamIntersection::of(traces));
    // A range may begin with the first event, and ends what is read.
    if (selection.range.is_bounded() || intersection) order = Merge::Order::kByTime;
    Merge merge = LEAT_TRY(Merge::make(traces, selection.range.earliest(), order));
    return SelectedEvents(std::move(merge), selection, std::move(intersection));
}

Result<bool> SelectedEvents::next() {
    while (true) {
        if (look_) look_();
        if (check_) LEAT_TRY(check_());
        if (LEAT_TRY(select())) return true;
        if (is_over_ || !LEAT_TRY(merge_.next())) return false;
        found_ = merge_.events();
        const auto time_ns = found_.empty() ? merge_.message().time_ns : found_.front().time_ns();
        if (time_ns && !std::exchange(has_begun_, true)) LEAT_TRY(range_.begin_at(*time_ns));
        if (time_ns && range_.is_behind(*time_ns)) return false;
        if (found_.empty() && merge_.message().is_loss() && is_selected(merge_.message())) return true;
    }
}

Result<bool> SelectedEvents::select() {
    events_ = {};
    if (!filter_ && !range_.is_bounded() && !intersection_) {
        events_ = std::exchange(found_, {});
        return !events_.empty();
    }
    while (!found_.empty() && !is_over_) {
        const auto first = found_.first(1);
        found_ = found_.subspan(1);
        // Nothing behind the range is read, so an error there is not told.
        is_over_ = range_.is_behind(first.front().time_ns().value_or(INT64_MIN));
        if (!LEAT_TRY(is_selected(first.front()))) continue;
        events_ = first;
        return true;
    }
    return false;
}

Result<bool> SelectedEvents::is_selected(const FoundEvent& event) {
    const auto time_ns = event.time_ns();
    if (time_ns && !range_.contains(*time_ns)) return false;
    if (intersection_ && !intersection_->range_of(*event.packet->stream).contains(event.place->time_ns)) return false;
    return filter_ ? filter_->takes(*event.packet, *event.place) : Result<bool>(true);
}

bool SelectedEvents::is_selected(const Message& message) const {
    const Loss& loss = message.loss;
    if (!loss.begin_ns || !loss.end_ns) return true;
    if (intersection_ && !intersection_->range_of(*message.stream).touches(*loss.begin_ns, *loss.end_ns)) return false;
    return range_.touches(*loss.begin_ns, *loss.end_ns);
}

}  // namespace leat::viewer
