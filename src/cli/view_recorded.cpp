// `leat view PATH`: traces on disk, to their end.
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/view_arguments.hpp"
#include "trace/trace_directories.hpp"
#include "viewer/merge/merge.hpp"
#include "viewer/read/recorded_trace.hpp"
#include "viewer/sink/text_sink.hpp"

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

// Prints until the end, or until nobody reads.
Result<void> print(viewer::Merge& merge, viewer::TextSink& sink) {
    while (!sink.is_closed() && LEAT_TRY(merge.next())) LEAT_TRY(sink.consume(merge.message()));
    return {};
}

}  // namespace

Result<void> view_recorded(const ViewArguments& arguments, const viewer::TextOptions& options) {
    std::vector<fs::path> paths(arguments.traces.begin(), arguments.traces.end());
    if (paths.empty()) paths.push_back(LEAT_TRY(newest_recording()));
    const auto traces = LEAT_TRY(viewer::open_traces(paths));
    viewer::Merge merge = LEAT_TRY(viewer::Merge::make(traces));
    viewer::TextSink sink(options, STDOUT_FILENO, STDERR_FILENO);
    auto printed = print(merge, sink);
    LEAT_TRY(sink.flush());
    if (!printed || sink.is_closed()) return printed;
    // Report damage last, below the events that could be read in spite of it.
    for (const auto& trace : traces)
        if (trace->damage()) return tl::unexpected(*trace->damage());
    return {};
}

}  // namespace leat::cli
