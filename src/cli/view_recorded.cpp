// `leat view PATH`: traces on disk, to their end.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cli/view_arguments.hpp"
#include "trace/trace_directories.hpp"
#include "viewer/merge/merge.hpp"
#include "viewer/read/recorded_trace.hpp"
#include "viewer/sink/loss_text.hpp"
#include "viewer/sink/text_buffer.hpp"
#include "viewer/sink/text_pipeline.hpp"

namespace leat::cli {
namespace {

namespace fs = std::filesystem;

// The newest trace that `leat record` has left in this directory.
Result<fs::path> newest_recording() {
    std::optional<fs::path> newest;
    fs::file_time_type newest_time;
    std::error_code error;
    for (const fs::directory_entry& entry : fs::directory_iterator(".", error)) {
        std::error_code ignored;
        const std::string name = entry.path().filename().string();
        if (!name.starts_with("leat-") || !entry.is_directory(ignored)) continue;
        const fs::file_time_type time = entry.last_write_time(ignored);
        if (newest && time <= newest_time) continue;
        if (!trace::find_trace_directories(name)) continue;
        newest = name;
        newest_time = time;
    }
    if (!newest) return not_found("no trace here: no directory leat-* with a trace in it; name one: leat view PATH");
    return *newest;
}

class Printer {
  public:
    Printer(const viewer::TextOptions& options, std::size_t threads)
        : is_json_(options.format == viewer::LineFormat::kJson),
          events_(options, STDOUT_FILENO, threads - 1),
          loss_text_(options) {}

    // Prints until the end, or until nobody reads.
    Result<void> print(viewer::Merge& merge) {
        auto printed = print_all(merge);
        LEAT_TRY(events_.flush());
        return printed;
    }
    [[nodiscard]] bool is_closed() const { return events_.is_closed(); }

  private:
    Result<void> print_all(viewer::Merge& merge) {
        while (!events_.is_closed() && LEAT_TRY(merge.next())) {
            const viewer::Message& message = merge.message();
            if (viewer::is_loss(message.kind)) LEAT_TRY(tell_loss(message));
            if (message.kind != viewer::Message::Kind::kEvent) continue;
            LEAT_TRY(events_.add(*message.packet, {&message.place, 1}));
            if (const auto run = merge.take_run(); !run.empty()) LEAT_TRY(events_.add(*message.packet, run));
        }
        return {};
    }

    Result<void> tell_loss(const viewer::Message& message) {
        if (is_json_) {
            viewer::TextBuffer line(-1);
            viewer::LossText::append_json_line(line, message);
            LEAT_TRY(events_.add_line(line.text()));
        }
        loss_text_.append_warning(warnings_, message);
        return warnings_.flush();
    }

    bool is_json_;
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
    std::vector<fs::path> paths(arguments.traces.begin(), arguments.traces.end());
    if (paths.empty()) paths.push_back(LEAT_TRY(newest_recording()));
    const auto traces = LEAT_TRY(viewer::open_traces(paths));
    viewer::Merge merge = LEAT_TRY(viewer::Merge::make(traces));
    Printer printer(options, arguments.threads == 0 ? usual_threads() : arguments.threads);
    LEAT_TRY(printer.print(merge));
    if (printer.is_closed()) return Viewed::kUntilNobodyRead;
    // Report damage last, below the events that could be read in spite of it.
    for (const auto& trace : traces)
        if (trace->damage()) return tl::unexpected(*trace->damage());
    return Viewed::kToTheEnd;
}

}  // namespace leat::cli
