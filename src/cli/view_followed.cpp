// `leat view --follow DIR`: traces on disk, while they are written.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <ranges>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/descriptors.hpp"
#include "cli/live_printer.hpp"
#include "cli/misuse.hpp"
#include "cli/named_traces.hpp"
#include "cli/stop_signals.hpp"
#include "cli/tell.hpp"
#include "cli/view_arguments.hpp"
#include "trace/stream_paths.hpp"
#include "trace/sync_file.hpp"
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
    GrowingTraces(const ViewArguments& arguments, LivePrinter& printer, const StopSignals& stop)
        : roots_(arguments.traces.begin(), arguments.traces.end()), printer_(&printer), stop_(&stop) {}

    // Opens the traces that are new: at first those that are being written, later also those that have begun and ended
    // while we were busy. Returns whether anything may come. The next chunk was there before the one before it ended,
    // but its metadata may still be on the way.
    Result<bool> look() {
        constexpr int kMostLooks = 16;  // writers may move directories for ever
        bool is_expected = false;
        has_seen_all_ = true;
        for (const fs::path& root : roots_) {
            Found found;
            for (int looks = 0; looks < kMostLooks && !found.is_all && !stop_->has_come(); ++looks)
                found = LEAT_TRY(look(root));
            is_expected |= found.is_expected || !found.is_all;
            has_seen_all_ &= found.is_all;
        }
        has_looked_ = true;
        last_look_ = Clock::now();
        return is_expected || !traces_.empty();
    }

    // A trace that begins beside those that are open is not to wait until they have no more to say. Returns whether
    // there is one.
    Result<bool> look_if_told() {
        if (traces_.empty() || is_alone()) return false;
        if (!watch_.take_events() && Clock::now() - last_look_ < viewer::DirectoryWatch::kPeriod) return false;
        const std::size_t before = traces_.size();
        LEAT_TRY(look());
        return traces_.size() > before;
    }

    // Returns whether there was anything new.
    bool advance() {
        bool is_new = false;
        for (auto& [directory, trace] : traces_) {
            const auto progress = trace->advance();
            is_new |= progress != Progress::kNothingNew;
            if (progress && *progress != Progress::kEnded) continue;
            cut_short_ += trace->cut_short();
            trace.reset();
            if (!progress) give_up(directory, progress.error());
        }
        std::erase_if(traces_, [](const Growing& growing) { return growing.trace == nullptr; });
        return is_new;
    }

    // We can sleep on one lock at a time, and it says nothing about other traces.
    Result<void> wait() {
        if (is_alone() && !traces_.empty()) return traces_.front().trace->wait();
        // Where there is none, the caller looks.
        if (watch_.wait(stop_->fd()) && !traces_.empty()) LEAT_TRY(look());
        return {};
    }

    [[nodiscard]] bool empty() const { return traces_.empty(); }
    // Those that may not be read, each once.
    std::vector<fs::path> take_denied() { return std::exchange(untold_denied_, {}); }
    [[nodiscard]] std::size_t denied() const { return denied_.size(); }
    [[nodiscard]] std::size_t finished() const { return finished_; }
    [[nodiscard]] std::uint64_t cut_short() const { return cut_short_; }

  private:
    using Clock = std::chrono::steady_clock;

    [[nodiscard]] bool is_alone() const {
        return has_seen_all_ && roots_.size() == 1 && known_.size() == 1 && known_.contains(roots_.front());
    }

    struct Growing {
        fs::path directory;
        std::unique_ptr<FollowedTrace> trace;
    };
    // What was at or below a root when we looked. A relay puts the next chunk in the place of one that was cleared,
    // with all names that it had: it is another directory.
    using Listing = std::map<fs::path, std::optional<viewer::FileIdentity>>;
    static Listing list(const fs::path& root) {
        Listing listing;
        for (fs::path& directory : trace::find_directories(root)) {
            const auto identity = viewer::FileIdentity::of(directory);
            listing.emplace(std::move(directory), identity);
        }
        return listing;
    }

    struct Watched {
        Listing directories{};
        bool is_all = false;  // we hear of everything that is created at or below the root
    };
    // Directories that come after a listing, and before they are watched, are in the next listing. Somebody may make
    // and remove directories for ever.
    Watched watch(const fs::path& root) {
        constexpr int kMostListings = 16;
        Watched watched;
        for (int i = 0; i < kMostListings && !watched.is_all && !stop_->has_come(); ++i) {
            Listing now = list(root);
            watched.is_all = now == watched.directories;
            for (const fs::path& directory : std::views::keys(now)) watch_.add_directory(directory);
            watched.directories = std::move(now);
        }
        return watched;
    }

    // A relay has begun to write a trace, and waits for its metadata: docs/formats/sync-file.md.
    static bool is_on_its_way(const fs::path& directory) {
        std::error_code ignored;
        return trace::is_being_written(directory) && !fs::exists(directory / trace::kMetadataFile, ignored);
    }

    // A relay puts the next trace in the place of one that was cleared.
    [[nodiscard]] bool is_known(const fs::path& directory) const {
        const auto known = known_.find(directory);
        return known != known_.end() && viewer::FileIdentity::of(directory) == known->second;
    }

    struct Found {
        bool is_all = false;       // what moves meanwhile may have been in neither place when we looked there
        bool is_expected = false;  // a trace that is on its way
    };
    // Not at once: those that are open must go on first.
    static Found try_again() { return {.is_all = true, .is_expected = true}; }
    Result<Found> look(const fs::path& root) {
        const auto [directories, is_watched] = watch(root);
        // While others are open, nobody asks.
        const bool is_expected = traces_.empty() && std::ranges::any_of(std::views::keys(directories), is_on_its_way);
        const auto found = trace::find_trace_directories(root);
        if (!found && may_come_later(found.error())) return try_again();
        // What we followed may be gone by now: it was cleared, or ended before its metadata came.
        const bool may_be_empty = is_expected || has_looked_ || !known_.empty();
        const bool is_gone = !found && (found.error().kind == ErrorKind::kNotFound || !viewer::FileIdentity::of(root));
        if (!found && !(is_gone && may_be_empty)) return tl::unexpected(found.error());
        bool is_any_new = false;
        const trace::TraceDirectories there = found.value_or(trace::TraceDirectories());
        if (there.paths.empty() && !may_be_empty) return tl::unexpected(trace::denied_error(there.denied.front()));
        note_denied(there.denied);
        for (const fs::path& directory : there.paths) {
            if (is_known(directory)) continue;
            const auto identity = viewer::FileIdentity::of(directory);
            if (auto opened = open(directory); !opened) {
                if (may_come_later(opened.error())) return try_again();
                if (directory == root) return wrap(directory.string(), std::move(opened).error());
                give_up(directory, opened.error());
                if (identity) known_.insert_or_assign(directory, *identity);
            }
            is_any_new = true;
        }
        const bool is_all = (!is_any_new && !traces_.empty()) || list(root) == directories;
        return Found{.is_all = is_watched && is_all, .is_expected = is_expected};
    }

    // Those that are open will give descriptors back: it is tried again, in silence.
    [[nodiscard]] bool may_come_later(const Error& error) const {
        return error.kind == ErrorKind::kDiskFull && !traces_.empty();
    }

    void note_denied(std::span<const fs::path> directories) {
        for (const fs::path& directory : directories)
            if (denied_.insert(directory).second) untold_denied_.push_back(directory);
    }

    Result<void> open(const fs::path& directory) {
        auto opened = FollowedTrace::open(directory, seen_.size(), printer_->merge(), print_warning, has_looked_);
        if (!opened) return tl::unexpected(std::move(opened).error());
        if (opened->finished) leave_out(directory, *opened->finished);
        if (opened->trace == nullptr) return {};
        const viewer::FileIdentity identity = opened->trace->identity();
        known_.insert_or_assign(directory, identity);
        // A rotation gives it another name.
        if (!seen_.insert(identity).second) return {};
        watch_.add_file(directory / trace::kSyncFileName);
        traces_.push_back({directory, std::move(opened->trace)});
        return {};
    }

    // One that cannot be followed ends nothing but itself.
    void give_up(const fs::path& directory, const Error& error) {
        ++cut_short_;
        print_warning(fmt::format("{}: {}; the rest of it is not shown", directory.string(), error.message));
    }

    // It was finished before we came.
    void leave_out(const fs::path& directory, const viewer::FileIdentity& identity) {
        known_.insert_or_assign(directory, identity);
        if (seen_.insert(identity).second) ++finished_;
    }

    std::vector<fs::path> roots_;
    LivePrinter* printer_;
    const StopSignals* stop_;
    viewer::DirectoryWatch watch_;
    std::map<fs::path, viewer::FileIdentity> known_;  // where they are or were, the latest of each place
    std::set<fs::path> denied_;                       // that may not be read
    std::vector<fs::path> untold_denied_;             // of these
    std::set<viewer::FileIdentity> seen_;             // that are or were followed, or were finished before we came
    bool has_looked_ = false;
    bool has_seen_all_ = false;  // when it looked last
    Clock::time_point last_look_{};
    std::vector<Growing> traces_;
    std::size_t finished_ = 0;
    std::uint64_t cut_short_ = 0;
};

}  // namespace

Result<Viewed> view_followed(const ViewArguments& arguments, const viewer::TextOptions& options) {
    if (arguments.traces.empty()) misuse("--follow needs the directory of a trace that is being written");
    const StopSignals stop;
    (void)raise_descriptor_limit();  // a trace has a file for each stream, and an index of each
    LivePrinter printer(options, arguments.selection.filter());
    GrowingTraces traces(arguments, printer, stop);
    bool may_go_on = LEAT_TRY(traces.look());
    if (!may_go_on) return view_recorded(arguments, options);
    LEAT_TRY(open_output(arguments));
    if (traces.finished() > 0)
        print_warning("traces that are finished are not shown: leat view without --follow shows them");
    while (!stop.has_come() && !printer.is_closed() && may_go_on) {
        warn_of_denied(traces.take_denied());
        bool is_new = traces.advance();
        if (LEAT_TRY(traces.look_if_told())) is_new = traces.advance() || is_new;
        LEAT_TRY(printer.print());
        LEAT_TRY(printer.flush());
        may_go_on = !traces.empty() || LEAT_TRY(traces.look());
        if (!is_new && may_go_on && !stop.has_come()) LEAT_TRY(traces.wait());
    }
    if (printer.is_closed()) return Viewed::kUntilNobodyRead;
    LEAT_TRY(printer.outcome(traces.cut_short()));
    LEAT_TRY(check_none_denied(traces.denied()));
    return Viewed::kToTheEnd;
}

}  // namespace leat::cli
