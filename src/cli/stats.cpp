// `leat stats`: what there is in a trace, in numbers.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/printable_text.hpp"
#include "cli/command.hpp"
#include "cli/json_text.hpp"
#include "cli/misuse.hpp"
#include "cli/named_traces.hpp"
#include "cli/progress_bar.hpp"
#include "cli/repeated_option.hpp"
#include "cli/selection.hpp"
#include "cli/steer/quantities.hpp"
#include "viewer/read/recorded_trace.hpp"
#include "viewer/stats/interval_meter.hpp"
#include "viewer/stats/trace_statistics.hpp"

namespace leat::cli {
namespace {

using viewer::Histogram;
using viewer::IntervalMeter;
using viewer::TraceStatistics;
using Count = TraceStatistics::Count;

constexpr std::uint64_t kNanosecondsPerSecond = 1'000'000'000;

constexpr const char* kStatsExamples =
    "Examples:\n"
    "  leat stats my-trace            events by name, process and CPU; rates, bytes, losses\n"
    "  leat stats --filter '$ctx.vpid == 42' --top 5 my-trace\n"
    "  leat stats --interval io:queued,io:completed --key id my-trace\n"
    "                                 how long it takes from one event to another of the same id\n"
    "  leat stats --format=json my-trace | jq '.by_event[0]'\n";

struct StatsOptions {
    std::vector<std::string> traces{};
    SelectionOptions selection{};
    bool is_gmt = false;
    std::size_t top = 20;
    std::string interval{};  // FROM,TO
    std::vector<std::string> keys{};
    std::string format = "text";
};

std::string name_of(const std::string& name) { return printable(name); }
std::string name_of(std::int64_t cpu) { return fmt::format("CPU {}", cpu); }
std::string name_of(const TraceStatistics::Process& process) {
    const std::string name = process.name.empty() ? "?" : printable(process.name);
    return process.vpid ? fmt::format("{} ({})", name, *process.vpid) : name;
}

Json json_of(const std::string& name) { return {{"name", name}}; }
Json json_of(std::int64_t cpu) { return {{"cpu_id", cpu}}; }
Json json_of(const TraceStatistics::Process& process) {
    return {{"vpid", process.vpid ? Json(*process.vpid) : Json()},
            {"procname", process.name.empty() ? Json() : Json(process.name)}};
}

// A row of a table: what has been counted, and how much.
template <class Key>
using Row = std::pair<const Key, Count>;
template <class Key>
using Rows = std::vector<const Row<Key>*>;

// Those with the most events first; `top`: so many of them, 0: all.
template <class Key>
Rows<Key> rows_of(const std::map<Key, Count>& counts, std::size_t top) {
    Rows<Key> rows;
    rows.reserve(counts.size());
    for (const Row<Key>& row : counts) rows.push_back(&row);
    std::ranges::stable_sort(rows, std::greater(), [](const Row<Key>* row) { return row->second.events; });
    if (top != 0 && top < rows.size()) rows.resize(top);
    return rows;
}

double seconds_of(const TraceStatistics& statistics) {
    const auto& span = statistics.span_ns();
    if (!span) return 0;
    return static_cast<double>(static_cast<std::uint64_t>(span->second) - static_cast<std::uint64_t>(span->first)) /
           static_cast<double>(kNanosecondsPerSecond);
}

// A second: of so many events in that time; nothing if it took none.
std::optional<double> rate_of(std::uint64_t events, double seconds) {
    return seconds > 0 ? std::optional(static_cast<double>(events) / seconds) : std::nullopt;
}

template <class Key>
void print_table(const char* title, const std::map<Key, Count>& counts, const TraceStatistics& statistics,
                 std::size_t top) {
    constexpr std::size_t kNarrowest = 24;
    constexpr std::size_t kWidest = 100;  // longer names push the rest of their line away
    const Rows<Key> rows = rows_of(counts, top);
    if (rows.empty()) return;
    std::size_t width = kNarrowest;
    for (const Row<Key>* row : rows) width = std::max(width, std::min(kWidest, name_of(row->first).size()));
    fmt::print("\n{:<{}} {:>12} {:>7} {:>12} {:>12}\n", title, width, "events", "share", "a second", "bytes");
    for (const Row<Key>* row : rows) {
        const Count& count = row->second;
        const auto rate = rate_of(count.events, seconds_of(statistics));
        fmt::print("{:<{}} {:>12} {:>6.1f}% {:>12} {:>12}\n", name_of(row->first), width, count.events,
                   100.0 * static_cast<double>(count.events) / static_cast<double>(statistics.all().events),
                   rate ? fmt::format("{:.0f}", *rate) : "-", size_for_people(count.bytes()));
    }
    if (rows.size() < counts.size()) fmt::print("and {} more: --top 0 shows all\n", counts.size() - rows.size());
}

void print_losses(const viewer::Losses& lost) {
    if (lost.events != 0) fmt::print("lost: {} event{} discarded\n", lost.events, lost.events == 1 ? "" : "s");
    if (lost.packets != 0) fmt::print("lost: {} packet{}\n", lost.packets, lost.packets == 1 ? "" : "s");
    if (lost.unknown != 0)
        fmt::print("lost: {} time{}, an unknown number of events\n", lost.unknown, lost.unknown == 1 ? "" : "s");
    if (lost.events == 0 && lost.packets == 0 && lost.unknown == 0) fmt::print("lost: nothing\n");
}

void print_interval(const IntervalMeter& meter, const std::string& title) {
    constexpr std::size_t kWidest = 50;
    const Histogram& histogram = meter.histogram();
    fmt::print("\nfrom {}: {} interval{}, {} without an end, {} without a begin, {} event{} without the key\n",
               printable(title), histogram.count(), histogram.count() == 1 ? "" : "s", meter.open(),
               meter.ended_without_begin(), meter.without_key(), meter.without_key() == 1 ? "" : "s");
    if (meter.forgotten() != 0)
        fmt::print("{} of those without an end are forgotten: too many were open at once\n", meter.forgotten());
    if (histogram.count() == 0) return;
    fmt::print("least {}, mean {}, median {}, 90 % {}, 99 % {}, 99.9 % {}, most {}\n",
               span_for_people(histogram.least()), span_for_people(static_cast<std::uint64_t>(histogram.mean())),
               span_for_people(histogram.quantile(0.5)), span_for_people(histogram.quantile(0.9)),
               span_for_people(histogram.quantile(0.99)), span_for_people(histogram.quantile(0.999)),
               span_for_people(histogram.most()));
    const auto octaves = histogram.octaves();
    const std::uint64_t most = std::ranges::max(octaves, {}, &Histogram::Octave::count).count;
    for (const Histogram::Octave& octave : octaves) {
        const std::size_t width = static_cast<std::size_t>((octave.count * kWidest + most - 1) / most);
        fmt::print("{:>10} to {:>10} {:>12} {}\n", span_for_people(octave.lowest), span_for_people(octave.highest),
                   octave.count, std::string(width, '#'));
    }
}

void print_text(const StatsOptions& options, const TraceStatistics& statistics,
                const std::optional<IntervalMeter>& meter) {
    const Count& all = statistics.all();
    const double seconds = seconds_of(statistics);
    fmt::print("{} event{}, {}", all.events, all.events == 1 ? "" : "s", size_for_people(all.bytes()));
    if (const auto rate = rate_of(all.events, seconds)) fmt::print(", in {:.3f} s: {:.0f} a second", seconds, *rate);
    fmt::print("\n");
    print_losses(statistics.losses());
    print_table("event", statistics.by_name(), statistics, options.top);
    print_table("process", statistics.by_process(), statistics, options.top);
    print_table("CPU", statistics.by_cpu(), statistics, options.top);
    if (meter) print_interval(*meter, options.interval);
}

template <class Key>
Json table_json(const std::map<Key, Count>& counts, std::size_t top) {
    Json table = Json::array();
    for (const Row<Key>* row : rows_of(counts, top)) {
        Json json = json_of(row->first);
        json["events"] = row->second.events;
        json["bytes"] = row->second.bytes();
        table.push_back(std::move(json));
    }
    return table;
}

Json interval_json(const IntervalMeter& meter) {
    const Histogram& histogram = meter.histogram();
    Json octaves = Json::array();
    for (const Histogram::Octave& octave : histogram.octaves())
        octaves.push_back({{"lowest_ns", octave.lowest}, {"highest_ns", octave.highest}, {"count", octave.count}});
    const auto known = [&](auto figure) { return histogram.count() == 0 ? Json() : Json(figure); };
    return {{"count", histogram.count()},
            {"without_end", meter.open()},
            {"forgotten", meter.forgotten()},
            {"without_begin", meter.ended_without_begin()},
            {"without_key", meter.without_key()},
            {"least_ns", known(histogram.least())},
            {"mean_ns", known(histogram.mean())},
            {"median_ns", known(histogram.quantile(0.5))},
            {"p90_ns", known(histogram.quantile(0.9))},
            {"p99_ns", known(histogram.quantile(0.99))},
            {"p999_ns", known(histogram.quantile(0.999))},
            {"most_ns", known(histogram.most())},
            {"histogram", std::move(octaves)}};
}

void print_json(const StatsOptions& options, const TraceStatistics& statistics,
                const std::optional<IntervalMeter>& meter, const std::optional<Error>& damage) {
    const auto& span = statistics.span_ns();
    const viewer::Losses& lost = statistics.losses();
    const auto rate = rate_of(statistics.all().events, seconds_of(statistics));
    Json result{
        {"ok", !damage},
        {"events", statistics.all().events},
        {"bytes", statistics.all().bytes()},
        {"begin_ns", span ? Json(span->first) : Json()},
        {"end_ns", span ? Json(span->second) : Json()},
        {"events_per_second", rate ? Json(*rate) : Json()},
        {"lost", {{"events", lost.events}, {"packets", lost.packets}, {"unknown", lost.unknown}}},
        {"by_event", table_json(statistics.by_name(), options.top)},
        {"by_process", table_json(statistics.by_process(), options.top)},
        {"by_cpu", table_json(statistics.by_cpu(), options.top)},
    };
    if (meter) result["interval"] = interval_json(*meter);
    if (damage) result["error"] = damage->message;
    fmt::print("{}\n", readable_json(result));
}

std::optional<IntervalMeter> meter_of(const StatsOptions& options) {
    if (options.interval.empty() && !options.keys.empty()) misuse("--key is of --interval FROM,TO");
    if (options.interval.empty()) return std::nullopt;
    const std::size_t comma = options.interval.find(',');
    if (comma == std::string::npos || comma == 0 || comma + 1 == options.interval.size())
        misuse("--interval takes the names of two events: FROM,TO");
    std::vector<viewer::EventExpression> keys;
    keys.reserve(options.keys.size());
    for (const std::string& key : options.keys) keys.emplace_back(meaning_of(viewer::parse_filter(key, "--key")));
    return std::optional<IntervalMeter>(std::in_place, options.interval.substr(0, comma),
                                        options.interval.substr(comma + 1), std::move(keys));
}

Result<void> check_interval(const StatsOptions& options, const IntervalMeter& meter,
                            const viewer::RecordedTraces& traces) {
    const auto classes = viewer::classes_of(traces);
    const std::size_t comma = options.interval.find(',');
    LEAT_TRY(check_event_names("--interval", options.interval.substr(0, comma), options.interval.substr(comma + 1),
                               classes));
    const auto has_clock = [](const auto& trace) {
        return std::ranges::any_of(trace->streams(), [](const auto& stream) { return stream.plan->clock != nullptr; });
    };
    if (std::ranges::none_of(traces, has_clock)) return refused("--interval: these events have no times");
    return meter.check(classes);
}

// Prints the figures. Returns what was wrong with the traces, if anything was.
Result<std::optional<Error>> count(StatsOptions& options) {
    LEAT_TRY(put_traces_on_disk(options.traces));
    const viewer::Selection selection = options.selection.parse(options.is_gmt);
    auto meter = meter_of(options);
    const NamedTraces named = LEAT_TRY(open_named_traces(options.traces));
    const viewer::RecordedTraces& traces = named.traces;
    if (meter) LEAT_TRY(check_interval(options, *meter, traces));
    const auto order = meter ? viewer::Merge::Order::kByTime : viewer::Merge::Order::kAny;
    viewer::SelectedEvents events = LEAT_TRY(viewer::SelectedEvents::make(traces, selection, order));
    TraceStatistics statistics;
    ProgressBar progress(false);
    progress.follow(events);
    auto counted = events.for_each(
        [&](std::span<const viewer::FoundEvent> found) -> Result<bool> {
            for (const auto& [packet, place] : found) {
                LEAT_TRY(statistics.add(*packet, *place));
                if (meter) LEAT_TRY(meter->add(*packet, *place));
            }
            return true;
        },
        [&](const viewer::Message& message) {
            statistics.add_loss(message);
            return Result<void>();
        });
    progress.clear();
    const auto whole = counted ? check_all_read(named) : std::move(counted);
    const auto damage = whole ? std::nullopt : std::optional(whole.error());
    if (options.format == "json")
        print_json(options, statistics, meter, damage);
    else
        print_text(options, statistics, meter);
    if (std::fflush(stdout) != 0) return io_error("cannot write");
    return damage;
}

}  // namespace

void add_stats_command(CLI::App& app, int& exit_status) {
    const auto options = std::make_shared<StatsOptions>();
    CLI::App* command = app.add_subcommand("stats", "count the events of a trace, by name, process and CPU");
    command->add_option(
        "TRACE", options->traces,
        "directories with traces in or below them, or sessions of the session daemon; none: the current "
        "session, or the newest ./leat-*");
    options->selection.add_to(*command);
    command->add_flag("--clock-gmt", options->is_gmt, "--begin and --end are in UTC, not in the local time zone");
    command->add_option("--top", options->top, "rows of each table; 0: all (default: 20)")
        ->check(CLI::Range(0, 1'000'000'000));
    command->add_option("--interval", options->interval,
                        "FROM,TO: measure the time from an event to another, by their names or patterns of them");
    repeated(command->add_option(
        "--key", options->keys,
        "of the same value of this field: id, or $ctx.vtid; of several, if it is given several times"));
    command->add_option("--format", options->format, "text or json")->check(CLI::IsMember({"text", "json"}));
    command->footer(kStatsExamples);
    command->callback([options, &exit_status] {
        const auto counted = count(*options);
        if (!counted) {
            exit_status = report_failure(counted.error(), options->format);
        } else if (*counted) {
            print_error(**counted);
            exit_status = kExitFailed;
        }
    });
}

}  // namespace leat::cli
