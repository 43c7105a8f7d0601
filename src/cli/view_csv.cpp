// `leat view --format=csv PATH`: traces on disk as a table.
#include <unistd.h>

#include <span>

#include "cli/named_traces.hpp"
#include "cli/progress_bar.hpp"
#include "cli/selection.hpp"
#include "cli/view_arguments.hpp"
#include "viewer/read/recorded_trace.hpp"
#include "viewer/sink/csv_sink.hpp"
#include "viewer/sink/loss_text.hpp"
#include "viewer/sink/text_buffer.hpp"

namespace leat::cli {

Result<Viewed> view_csv(const ViewArguments& arguments, const viewer::TextOptions& options) {
    const NamedTraces named = LEAT_TRY(open_named_traces(arguments.traces, arguments.clock_shift));
    viewer::SelectedEvents events = LEAT_TRY(viewer::SelectedEvents::make(named.traces, arguments.selection));
    viewer::CsvSink table = LEAT_TRY(viewer::CsvSink::make(arguments.columns, viewer::classes_of(named.traces)));
    LEAT_TRY(open_output(arguments));
    viewer::TextBuffer output(STDOUT_FILENO);
    viewer::TextBuffer warnings(STDERR_FILENO);
    viewer::LossText losses(options);
    ProgressBar progress(true);
    progress.follow(events);
    table.append_header(output);
    auto printed = events.for_each(
        [&](std::span<const viewer::FoundEvent> found) -> Result<bool> {
            for (const auto& [packet, place] : found) {
                LEAT_TRY(table.append(output, *packet, *place));
                LEAT_TRY(output.flush_if_full());  // each row may be long
            }
            return !output.is_closed();
        },
        [&](const viewer::Message& message) {
            progress.clear();
            losses.append_warning(warnings, message);
            warnings.flush_if_possible();
            return Result<void>();
        });
    LEAT_TRY(output.flush());
    LEAT_TRY(std::move(printed));
    if (output.is_closed()) return Viewed::kUntilNobodyRead;
    LEAT_TRY(check_all_read(named));
    return Viewed::kToTheEnd;
}

}  // namespace leat::cli
