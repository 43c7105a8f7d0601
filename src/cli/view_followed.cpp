// `leat view --follow DIR`: traces on disk, while they are written.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <vector>

#include "cli/live_printer.hpp"
#include "cli/stop_signals.hpp"
#include "cli/view_arguments.hpp"
#include "trace/trace_directories.hpp"
#include "viewer/read/directory_watch.hpp"
#include "viewer/read/followed_trace.hpp"

namespace leat::cli {
namespace {

namespace fs = std::filesystem;
using viewer::FollowedTrace;
using viewer::Progress;

// The traces below some directories that are being written, also those that appear there meanwhile.
class GrowingTraces {
  public:
    GrowingTraces(const ViewArguments& arguments, LivePrinter& printer)
        : roots_(arguments.traces.begin(), arguments.traces.end()), printer_(&printer) {}

    // Opens the traces that are new.
    Result<void> look() {
        for (const fs::path& root : roots_) {
            watch(root);
            const auto found = trace::find_trace_directories(root);
            // What we followed may be gone by now: it was cleared.
            if (!found && found.error().kind == ErrorKind::kNotFound && !known_.empty()) continue;
            if (!found) return tl::unexpected(found.error());
            for (const fs::path& directory : *found)
                if (!known_.contains(directory)) LEAT_TRY(open(directory));
        }
        return {};
    }

    // Returns whether there was anything new.
    Result<bool> advance() {
        bool is_new = false;
        for (auto& trace : traces_) {
            const Progress progress = LEAT_TRY(trace->advance());
            is_new |= progress != Progress::kNothingNew;
            if (progress != Progress::kEnded) continue;
            cut_short_ += trace->cut_short();
            trace.reset();
        }
        std::erase(traces_, nullptr);
        return is_new;
    }

    // We can sleep on one lock at a time, and it says nothing about other traces.
    Result<void> wait(const StopSignals& stop) {
        const bool is_alone = roots_.size() == 1 && known_.size() == 1 && known_.contains(roots_.front());
        if (is_alone) return traces_.front()->wait();
        return watch_.wait(stop.fd()) ? look() : Result<void>();
    }

    [[nodiscard]] bool empty() const { return traces_.empty(); }
    [[nodiscard]] std::size_t finished() const { return finished_; }
    [[nodiscard]] std::uint64_t cut_short() const { return cut_short_; }

  private:
    // Afterwards we hear of everything that is created at or below `root`.
    void watch(const fs::path& root) {
        std::vector<fs::path> seen;
        for (std::vector<fs::path> now = trace::find_directories(root); now != seen;
             now = trace::find_directories(root)) {
            for (const fs::path& directory : now) watch_.add_directory(directory);
            seen = std::move(now);
        }
    }

    Result<void> open(const fs::path& directory) {
        auto trace = FollowedTrace::open(directory, known_.size(), printer_->merge(), print_warning);
        if (!trace) return wrap(directory.string(), std::move(trace).error());
        if (*trace == nullptr) {
            ++finished_;
            return {};
        }
        known_.insert(directory);
        // A rotation gives it another name while its writer still waits for a relay.
        const auto is_the_same = [identity = (*trace)->identity()](const auto& other) {
            return other->identity() == identity;
        };
        if (std::ranges::any_of(traces_, is_the_same)) return {};
        watch_.add_file(directory / trace::kSyncFileName);
        traces_.push_back(*std::move(trace));
        return {};
    }

    std::vector<fs::path> roots_;
    LivePrinter* printer_;
    viewer::DirectoryWatch watch_;
    std::set<fs::path> known_;  // that are or were followed
    std::vector<std::unique_ptr<FollowedTrace>> traces_;
    std::size_t finished_ = 0;
    std::uint64_t cut_short_ = 0;
};

}  // namespace

Result<Viewed> view_followed(const ViewArguments& arguments, const viewer::TextOptions& options) {
    if (arguments.traces.empty()) return refused("--follow needs the directory of a trace that is being written");
    const StopSignals stop;
    LivePrinter printer(options, arguments.selection.filter());
    GrowingTraces traces(arguments, printer);
    LEAT_TRY(traces.look());
    if (traces.empty()) return view_recorded(arguments, options);
    if (traces.finished() > 0)
        print_warning("traces that are finished are not shown: leat view without --follow shows them");
    while (!stop.has_come() && !printer.is_closed() && !traces.empty()) {
        const bool is_new = LEAT_TRY(traces.advance());
        LEAT_TRY(printer.print());
        LEAT_TRY(printer.flush());
        if (traces.empty()) LEAT_TRY(traces.look());  // the next chunk was there before this one ended
        if (!is_new && !stop.has_come()) LEAT_TRY(traces.wait(stop));
    }
    if (printer.is_closed()) return Viewed::kUntilNobodyRead;
    LEAT_TRY(printer.outcome(traces.cut_short()));
    return Viewed::kToTheEnd;
}

}  // namespace leat::cli
