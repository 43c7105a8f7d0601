#include "cli/selection.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <vector>

#include "base/pattern.hpp"

namespace leat::cli {

void SelectionOptions::add_to(CLI::App& command) {
    command.add_option(
        "--filter", filter,
        "only events for which this holds: '$ctx.vpid == 42 && key == \"user*\"'; fields of the payload by "
        "their names, $ctx.NAME, $name, $time, $loglevel");
    command.add_option("--begin", begin,
                       "no events before this time: [YYYY-MM-DD ]HH:MM[:SS[.N]], or seconds since 1970");
    command.add_option("--end", end, "no events after this time");
    command.add_option("--timerange", time_range, "BEGIN,END: both in one");
}

Result<Selection> SelectionOptions::parse(bool is_gmt) const {
    Selection selection;
    if (filter) selection.expression = LEAT_TRY(viewer::parse_filter(*filter));
    selection.range = LEAT_TRY(viewer::TimeRange::parse(begin, end, time_range, is_gmt));
    return selection;
}

std::vector<const ctf::TraceClass*> classes_of(const Traces& traces) {
    std::vector<const ctf::TraceClass*> classes(traces.size());
    std::ranges::transform(traces, classes.begin(), [](const auto& trace) { return &trace->trace_class(); });
    return classes;
}

Result<void> check_event_names(std::string_view option, const std::string& from, const std::string& to,
                               std::span<const ctf::TraceClass* const> trace_classes) {
    for (const std::string& pattern : {from, to}) {
        const auto matches = [&](const ctf::EventClass& event) { return matches_pattern(pattern, event.name); };
        const auto is_known = [&](const ctf::TraceClass* trace) {
            return std::ranges::any_of(trace->streams,
                                       [&](const auto& stream) { return std::ranges::any_of(stream.events, matches); });
        };
        if (std::ranges::none_of(trace_classes, is_known))
            return refused("{}: no event is called \"{}\"", option, pattern);
    }
    return {};
}

Result<SelectedEvents> SelectedEvents::make(const Traces& traces, const Selection& selection) {
    if (const auto filter = selection.filter()) LEAT_TRY(filter->check(classes_of(traces)));
    const auto is_timeless = [](const auto& trace) {
        return std::ranges::any_of(trace->streams(), [](const auto& stream) { return stream.plan->clock == nullptr; });
    };
    if (selection.range.is_bounded() && std::ranges::any_of(traces, is_timeless))
        return refused("a range of times is of no use: there are events without a time");
    return SelectedEvents(LEAT_TRY(viewer::Merge::make(traces)), selection);
}

Result<bool> SelectedEvents::is_selected(const viewer::PacketView& packet, const ctf::EventPlace& place) {
    const bool is_timed = packet.plan->clock != nullptr;
    if (is_timed && (range_.is_before(place.time_ns) || range_.is_behind(place.time_ns))) return false;
    return filter_ ? filter_->takes(packet, place) : Result<bool>(true);
}

bool SelectedEvents::is_in_range(const viewer::Loss& loss) const {
    return !loss.begin_ns || !loss.end_ns || (!range_.is_before(*loss.end_ns) && !range_.is_behind(*loss.begin_ns));
}

}  // namespace leat::cli
