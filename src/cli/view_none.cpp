// `leat view --format=none PATH`: all events are found, and none is printed.
#include <unistd.h>

#include <span>

#include "cli/named_traces.hpp"
#include "cli/progress_bar.hpp"
#include "cli/view_arguments.hpp"
#include "viewer/read/recorded_trace.hpp"
#include "viewer/sink/loss_text.hpp"
#include "viewer/sink/text_buffer.hpp"

namespace leat::cli {

Result<Viewed> view_none(const ViewArguments& arguments, const viewer::TextOptions& options) {
    const NamedTraces named = LEAT_TRY(open_named_traces(arguments.traces, arguments.clock_shift));
    viewer::SelectedEvents events =
        LEAT_TRY(viewer::SelectedEvents::make(named.traces, arguments.selection, viewer::Merge::Order::kAny));
    LEAT_TRY(open_output(arguments));
    viewer::TextBuffer warnings(STDERR_FILENO);
    viewer::LossText losses(options);
    ProgressBar progress(false);
    progress.follow(events);
    LEAT_TRY(events.for_each([&](std::span<const viewer::FoundEvent>) -> Result<bool> { return true; },
                             [&](const viewer::Message& message) {
                                 progress.clear();
                                 losses.append_warning(warnings, message);
                                 warnings.flush_if_possible();
                                 return Result<void>();
                             }));
    LEAT_TRY(check_all_read(named));
    return Viewed::kToTheEnd;
}

}  // namespace leat::cli
