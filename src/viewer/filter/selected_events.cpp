#include "viewer/filter/selected_events.hpp"

#include <algorithm>

namespace leat::viewer {

Result<SelectedEvents> SelectedEvents::make(const RecordedTraces& traces, const Selection& selection) {
    if (const auto filter = selection.filter()) LEAT_TRY(filter->check(classes_of(traces)));
    const auto is_timeless = [](const auto& trace) {
        return std::ranges::any_of(trace->streams(), [](const auto& stream) { return stream.plan->clock == nullptr; });
    };
    if (selection.range.is_bounded() && std::ranges::any_of(traces, is_timeless))
        return refused("a range of times is of no use: there are events without a time");
    std::optional<StreamIntersection> intersection;
    if (selection.is_of_all_streams) intersection = LEAT_TRY(StreamIntersection::of(traces));
    Merge merge = LEAT_TRY(Merge::make(traces, selection.range.earliest()));
    return SelectedEvents(std::move(merge), selection, std::move(intersection));
}

Result<bool> SelectedEvents::next() {
    while (true) {
        if (look_) look_();
        if (LEAT_TRY(select())) return true;
        if (std::exchange(has_run_, false)) {
            found_ = merge_.take_run();
            continue;
        }
        if (!LEAT_TRY(merge_.next())) return false;
        const Message& message = merge_.message();
        if (message.time_ns && !std::exchange(has_begun_, true)) LEAT_TRY(range_.begin_at(*message.time_ns));
        if (message.time_ns && range_.is_behind(*message.time_ns)) return false;
        if (message.is_loss() && is_selected(message)) return true;
        if (message.kind != Message::Kind::kEvent) continue;
        found_ = {&message.place, 1};
        has_run_ = true;
    }
}

Result<bool> SelectedEvents::select() {
    places_ = {};
    if (!filter_ && !range_.is_bounded() && !intersection_) {
        places_ = std::exchange(found_, {});
        return !places_.empty();
    }
    while (!found_.empty()) {
        const auto first = found_.first(1);
        found_ = found_.subspan(1);
        if (!LEAT_TRY(is_selected(first.front()))) continue;
        places_ = first;
        return true;
    }
    return false;
}

Result<bool> SelectedEvents::is_selected(const ctf::EventPlace& place) {
    const bool is_timed = packet().plan->clock != nullptr;
    if (is_timed && !range_.contains(place.time_ns)) return false;
    if (intersection_ && !intersection_->range_of(*packet().stream).contains(place.time_ns)) return false;
    return filter_ ? filter_->takes(packet(), place) : Result<bool>(true);
}

bool SelectedEvents::is_selected(const Message& message) const {
    const Loss& loss = message.loss;
    if (!loss.begin_ns || !loss.end_ns) return true;
    if (intersection_ && !intersection_->range_of(*message.stream).touches(*loss.begin_ns, *loss.end_ns)) return false;
    return range_.touches(*loss.begin_ns, *loss.end_ns);
}

}  // namespace leat::viewer
