// `leat view --follow DIR`: traces on disk, while they are written.
#include <poll.h>

#include <filesystem>
#include <memory>
#include <vector>

#include "cli/live_printer.hpp"
#include "cli/stop_signals.hpp"
#include "cli/view_arguments.hpp"
#include "viewer/followed_trace.hpp"
#include "viewer/trace_directories.hpp"

namespace leat::cli {
namespace {

using viewer::FollowedTrace;
using viewer::Progress;

// One lock can be slept on at a time: several traces are looked at in turn.
constexpr int kPollPeriodMs = 20;

using Traces = std::vector<std::unique_ptr<FollowedTrace>>;

Result<Traces> open_growing(const ViewArguments& arguments, LivePrinter& printer) {
    Traces traces;
    std::size_t finished = 0;
    for (const std::string& path : arguments.traces) {
        for (const auto& directory : LEAT_TRY(viewer::find_trace_directories(path))) {
            auto trace = FollowedTrace::open(directory, traces.size(), printer.merge(), print_warning);
            if (!trace) return wrap(directory.string(), std::move(trace).error());
            if (*trace != nullptr)
                traces.push_back(*std::move(trace));
            else
                ++finished;
        }
    }
    if (!traces.empty() && finished > 0)
        print_warning("traces that are finished are not shown: leat view without --follow shows them");
    return traces;
}

Result<void> wait(const Traces& traces, const StopSignals& stop) {
    if (traces.size() == 1) return traces.front()->wait();
    pollfd wanted{stop.fd(), POLLIN, 0};
    ::poll(&wanted, 1, kPollPeriodMs);
    return {};
}

}  // namespace

Result<void> view_followed(const ViewArguments& arguments, const viewer::TextOptions& options) {
    if (arguments.traces.empty()) return refused("--follow needs the directory of a trace that is being written");
    const StopSignals stop;
    LivePrinter printer(options);
    Traces traces = LEAT_TRY(open_growing(arguments, printer));
    if (traces.empty()) return view_recorded(arguments, options);
    while (!stop.has_come() && !printer.is_closed() && !traces.empty()) {
        bool is_new = false;
        for (auto& trace : traces) {
            const Progress progress = LEAT_TRY(trace->advance());
            is_new |= progress != Progress::kNothingNew;
            if (progress == Progress::kEnded) trace.reset();
        }
        std::erase(traces, nullptr);
        LEAT_TRY(printer.print());
        LEAT_TRY(printer.flush());
        if (!is_new && !stop.has_come()) LEAT_TRY(wait(traces, stop));
    }
    return {};
}

}  // namespace leat::cli
