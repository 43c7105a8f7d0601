// `leat export`: a trace in the format of another viewer.
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/command.hpp"
#include "cli/end_by_signal.hpp"
#include "cli/misuse.hpp"
#include "cli/named_traces.hpp"
#include "cli/output_file.hpp"
#include "cli/progress_bar.hpp"
#include "cli/repeated_option.hpp"
#include "cli/selection.hpp"
#include "cli/stop_signals.hpp"
#include "cli/tell.hpp"
#include "cli/write_signals.hpp"
#include "viewer/read/recorded_trace.hpp"
#include "viewer/sink/clickhouse_block.hpp"
#include "viewer/sink/columns.hpp"
#include "viewer/sink/text_buffer.hpp"
#include "viewer/timeline/chrome_writer.hpp"
#include "viewer/timeline/perfetto_writer.hpp"

namespace leat::cli {
namespace {

constexpr const char* kExportExamples =
    "Events are on tracks of their threads, or of CPUs. NAME_begin and NAME_end, NAME_entry and NAME_exit are slices; "
    "so are\n"
    "those that --slice names.\n"
    "Examples:\n"
    "  leat export perfetto my-trace -o my-trace.perfetto    open it at https://ui.perfetto.dev\n"
    "  leat export chrome my-trace | gzip > my-trace.json.gz\n"
    "  leat export perfetto --slice io:queued,io:completed,id disk-trace -o disk.perfetto\n"
    "  leat export clickhouse --columns time_ns,name,cpu_id,size my-trace -o my-trace.native\n"
    "  clickhouse local -q \"SELECT name, count() FROM file('my-trace.native', Native) GROUP BY name\"\n";

struct ExportOptions {
    std::string format{};
    std::vector<std::string> traces{};
    std::optional<std::string> output{};  // none: standard output
    std::vector<std::string> slices{};
    std::optional<std::string> columns{};
    SelectionOptions selection{};
    bool is_gmt = false;
};

std::vector<viewer::SliceRule> rules_of(const ExportOptions& options) {
    std::vector<viewer::SliceRule> rules;
    rules.reserve(options.slices.size());
    for (const std::string& slice : options.slices) rules.push_back(meaning_of(viewer::SliceRule::parse(slice)));
    return rules;
}

Result<void> check_rules(const std::vector<viewer::SliceRule>& rules,
                         std::span<const ctf::TraceClass* const> trace_classes) {
    for (const viewer::SliceRule& rule : rules) {
        LEAT_TRY(check_event_names("--slice", rule.from, rule.to, trace_classes));
        if (rule.key) LEAT_TRY(viewer::EventExpression(*rule.key).check(trace_classes));
    }
    return {};
}

// ClickHouse takes no table that has two columns of one name.
void refuse_repeated_columns(std::string_view titles) {
    std::set<std::string_view> known;
    for (const std::string_view title : viewer::split_titles(titles))
        if (!known.insert(title).second) misuse("--columns: \"{}\" is named twice", title);
}

Result<viewer::ColumnReader> columns_of(const ExportOptions& options, const viewer::RecordedTraces& traces,
                                        const viewer::Selection& selection) {
    if (!options.columns) return viewer::ColumnReader::make({}, traces, selection.filter());
    return viewer::ColumnReader::make(viewer::split_titles(*options.columns), traces, selection.filter());
}

bool is_regular_file(int fd) {
    struct stat status {};
    return ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

Result<OutputFile> output_of(const ExportOptions& options) {
    if (options.output) {
        LEAT_TRY(check_outside_of_traces(*options.output, LEAT_TRY(paths_of(options.traces))));
        return OutputFile::open(*options.output);
    }
    if (::isatty(STDOUT_FILENO) == 1) return refused("name a file: -o FILE; or send it to a pipe");
    return OutputFile::standard_output();
}

// In blocks of so many rows, or of so many bytes.
constexpr std::size_t kBlockRows = 65536;
constexpr std::size_t kBlockSize = 16U << 20U;

// `add(packet, place)` takes each event, and writes to the output now and then.
template <class Add>
Result<void> write_events(viewer::SelectedEvents& events, const viewer::TextBuffer& output, const Add& add) {
    ProgressBar progress(false);
    progress.follow(events);
    return events.for_each(
        [&](std::span<const viewer::FoundEvent> found) -> Result<bool> {
            for (const auto& [packet, place] : found) LEAT_TRY(add(*packet, *place));
            return !output.is_closed();
        },
        [](const viewer::Message&) { return Result<void>(); });
}

Result<void> write_table(viewer::SelectedEvents& events, viewer::ColumnReader& columns, viewer::TextBuffer& output) {
    std::size_t rows = 0;
    bool is_first = true;
    // A table without rows has its columns all the same.
    const auto write_block = [&]() -> Result<void> {
        if (rows != 0 || is_first) viewer::append_clickhouse_block(output, columns.take(rows), rows);
        is_first = false;
        rows = 0;
        return output.flush();
    };
    auto written = write_events(
        events, output, [&](const viewer::PacketView& packet, const ctf::EventPlace& place) -> Result<void> {
            LEAT_TRY(columns.append(packet, place));
            ++rows;
            return rows == kBlockRows || columns.bytes() > kBlockSize ? write_block() : Result<void>();
        });
    LEAT_TRY(write_block());
    return written;
}

Result<void> write_timeline(viewer::SelectedEvents& events, viewer::Timeline& timeline, viewer::TextBuffer& output) {
    return write_events(events, output,
                        [&](const viewer::PacketView& packet, const ctf::EventPlace& place) -> Result<void> {
                            LEAT_TRY(timeline.add(packet, place));
                            return output.flush_if_full();
                        });
}

Result<void> export_traces(ExportOptions& options) {
    LEAT_TRY(put_traces_on_disk(options.traces));
    const bool is_table = options.format == "clickhouse";
    if (is_table && !options.slices.empty()) misuse("--slice is for perfetto and chrome");
    if (!is_table && options.columns) misuse("--columns are those of clickhouse");
    refuse_empty_columns(options.columns);
    if (options.columns) refuse_repeated_columns(*options.columns);
    auto rules = rules_of(options);
    const viewer::Selection selection = options.selection.parse(options.is_gmt);
    const NamedTraces named = LEAT_TRY(open_named_traces(options.traces));
    const viewer::RecordedTraces& traces = named.traces;
    viewer::SelectedEvents events = LEAT_TRY(viewer::SelectedEvents::make(traces, selection));
    LEAT_TRY(check_rules(rules, viewer::classes_of(traces)));

    std::optional<viewer::ColumnReader> columns;
    if (is_table) columns = LEAT_TRY(columns_of(options, traces, selection));

    OutputFile file = LEAT_TRY(output_of(options));
    // A write to anything else may wait for whoever reads: we end as others do.
    std::optional<StopSignals> stop;
    if (is_regular_file(file.fd())) stop.emplace();
    events.check([&]() -> Result<void> {
        if (!stop || !stop->has_come()) return {};
        return file.is_part() ? refused("interrupted: there is no file") : refused("interrupted: the file ends early");
    });
    viewer::TextBuffer output(file.fd());
    viewer::ChromeWriter chrome(output);
    viewer::PerfettoWriter perfetto(output);
    const bool is_chrome = options.format == "chrome";
    if (is_chrome) chrome.begin();
    viewer::Timeline timeline(std::move(rules), is_chrome ? static_cast<viewer::TimelineWriter&>(chrome) : perfetto);
    auto written = columns ? write_table(events, *columns, output) : write_timeline(events, timeline, output);
    if (is_chrome) chrome.finish();
    if (auto flushed = output.flush(); !flushed)
        return wrap(options.output.value_or("standard output"), flushed.error());
    if (output.is_closed()) end_by_signal(SIGPIPE);
    if (!written && written.error().kind == ErrorKind::kRefused) return written;
    // What could be read of a damaged trace is exported.
    LEAT_TRY(file.finish());
    LEAT_TRY(std::move(written));
    if (timeline.given_up() != 0)
        print_warning(fmt::format("{} slices are cut short: too many were open at once, as if their ends were lost",
                                  timeline.given_up()));
    if (timeline.without_thread() != 0)
        print_warning(
            fmt::format("{} slices are of CPUs or streams: their events do not tell their threads (record vtid)",
                        timeline.without_thread()));
    if (timeline.on_others() != 0)
        print_warning(fmt::format("{} events are on the track \"others\", and in no slice: there are too many threads",
                                  timeline.on_others()));
    if (timeline.without_time() != 0)
        return refused("{} events have no time, and are not exported", timeline.without_time());
    return check_all_read(named);
}

}  // namespace

void add_export_command(CLI::App& app, int& exit_status) {
    const auto options = std::make_shared<ExportOptions>();
    CLI::App* command = app.add_subcommand("export", "write a trace in the format of another viewer");
    command
        ->add_option("FORMAT", options->format,
                     "perfetto; chrome: JSON for chrome://tracing; clickhouse: a table, in its format Native")
        ->required()
        ->check(CLI::IsMember({"perfetto", "chrome", "clickhouse"}));
    command->add_option(
        "TRACE", options->traces,
        "directories with traces in or below them, or sessions of the session daemon; none: the current "
        "session, or the newest ./leat-*");
    command->add_option("-o,--output", options->output, "the file (default: standard output)");
    repeated(command->add_option(
        "--slice", options->slices,
        "FROM,TO[,KEY]: two events that are a slice of time, within a thread, or of the same value of a "
        "field; may be given several times"));
    command->add_option("--columns", options->columns,
                        "of the table: time,time_ns,name,log_level, and fields and contexts by their names (default: "
                        "time_ns,name and all contexts and fields)");
    options->selection.add_to(*command);
    command->add_flag("--clock-gmt", options->is_gmt, "--begin and --end are in UTC, not in the local time zone");
    command->footer(kExportExamples);
    command->callback([options, &exit_status] {
        let_writes_fail();
        const auto exported = export_traces(*options);
        if (exported) return;
        print_error(exported.error());
        exit_status = kExitFailed;
    });
}

}  // namespace leat::cli
