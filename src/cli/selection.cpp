#include "cli/selection.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/pattern.hpp"
#include "cli/misuse.hpp"
#include "viewer/sink/event_table.hpp"

namespace leat::cli {

void SelectionOptions::add_to(CLI::App& command) {
    command.add_option(
        "--filter", filter,
        "only events for which this holds: '$ctx.vpid == 42 && key == \"user*\"'; fields of the payload by "
        "their names, $ctx.NAME, $app.PROVIDER:NAME, $name, $time, $loglevel");
    command.add_option("-b,--begin", begin,
                       "no events before this time: [YYYY-MM-DD ]HH:MM[:SS[.N]], or seconds since 1970");
    command.add_option("-e,--end", end, "no events after this time");
    command.add_option("-t,--timerange", time_range, "BEGIN,END: both in one");
    command.add_flag("--stream-intersection", is_of_all_streams,
                     "only events of times when all streams of their trace were active");
}

viewer::Selection SelectionOptions::parse(bool is_gmt) const {
    viewer::Selection selection;
    if (filter) selection.expression = meaning_of(viewer::parse_filter(*filter));
    selection.is_of_all_streams = is_of_all_streams;
    selection.range = meaning_of(viewer::TimeRange::parse(begin, end, time_range, is_gmt));
    return selection;
}

void refuse_empty_columns(const std::optional<std::string>& columns) {
    if (!columns) return;
    for (const std::string_view title : viewer::split_titles(*columns))
        if (title.empty()) misuse("--columns: a name is empty in \"{}\"", *columns);
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

}  // namespace leat::cli
