// `leat view PATH`: traces on disk, to their end.
#include <unistd.h>

#include <algorithm>
#include <span>
#include <thread>

#include "cli/named_traces.hpp"
#include "cli/progress_bar.hpp"
#include "cli/selection.hpp"
#include "cli/view_arguments.hpp"
#include "viewer/read/recorded_trace.hpp"
#include "viewer/sink/loss_text.hpp"
#include "viewer/sink/text_buffer.hpp"
#include "viewer/sink/text_pipeline.hpp"

namespace leat::cli {
namespace {

class Printer {
  public:
    Printer(const viewer::TextOptions& options, std::size_t threads)
        : is_json_(options.format == viewer::LineFormat::kJson),
          progress_(true),
          events_(options, STDOUT_FILENO, threads - 1),
          loss_text_(options) {}

    // Prints until the end, or until nobody reads.
    Result<void> print(viewer::SelectedEvents& events) {
        progress_.follow(events);
        auto printed = events.for_each(
            [&](std::span<const viewer::FoundEvent> found) -> Result<bool> {
                LEAT_TRY(events_.add(found));
                return !events_.is_closed();
            },
            [this](const viewer::Message& message) { return tell_loss(message); });
        LEAT_TRY(events_.flush());
        progress_.clear();
        return printed;
    }
    [[nodiscard]] bool is_closed() const { return events_.is_closed(); }

  private:
    Result<void> tell_loss(const viewer::Message& message) {
        if (is_json_) {
            viewer::TextBuffer line(-1);
            viewer::LossText::append_json_line(line, message);
            LEAT_TRY(events_.add_line(line.text()));
        }
        progress_.clear();
        loss_text_.append_warning(warnings_, message);
        warnings_.flush_if_possible();
        return {};
    }

    bool is_json_;
    ProgressBar progress_;
    viewer::TextPipeline events_;
    viewer::LossText loss_text_;
    viewer::TextBuffer warnings_{STDERR_FILENO};
};

// More would wait for the one that merges.
std::size_t usual_threads() {
    constexpr std::size_t kMost = 8;
    return std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, kMost);
}

}  // namespace

Result<Viewed> view_recorded(const ViewArguments& arguments, const viewer::TextOptions& options) {
    const NamedTraces named = LEAT_TRY(open_named_traces(arguments.traces, arguments.clock_shift));
    viewer::SelectedEvents events = LEAT_TRY(viewer::SelectedEvents::make(named.traces, arguments.selection));
    LEAT_TRY(open_output(arguments));
    Printer printer(options, arguments.threads == 0 ? usual_threads() : arguments.threads);
    LEAT_TRY(printer.print(events));
    if (printer.is_closed()) return Viewed::kUntilNobodyRead;
    // Report damage last, below the events that could be read in spite of it.
    LEAT_TRY(check_all_read(named));
    return Viewed::kToTheEnd;
}

}  // namespace leat::cli
