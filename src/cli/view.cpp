// `leat view`: its options, and which of its forms they mean.
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <ranges>
#include <span>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "cli/end_by_signal.hpp"
#include "cli/misuse.hpp"
#include "cli/named_traces.hpp"
#include "cli/output_file.hpp"
#include "cli/view_arguments.hpp"
#include "cli/write_signals.hpp"
#include "net/relay_url.hpp"

namespace leat::cli {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  leat view                      the trace of the current session; without one, the newest trace here, of those\n"
    "                                 that leat record makes\n"
    "  leat view my-trace             one trace, or all traces below a directory, merged by time\n"
    "  leat view web                  the trace of the session \"web\", if there is no such file\n"
    "  leat view --clock-date a b     with the date; traces of two hosts in one order\n"
    "  leat view my-trace | head      the first events\n"
    "  leat view --filter 'bytes >= 4096 && $name == \"io:*\"' my-trace\n"
    "                                 the events of IO that are large\n"
    "  leat view --format=json my-trace | jq .payload\n"
    "                                 an object for each event\n"
    "  leat view --format=csv --columns time_ns,cpu_id,bytes my-trace > io.csv\n"
    "  leat view --follow my-trace    while it is being recorded\n"
    "  leat view net://relay          the sessions of a relay\n"
    "  leat view net://relay/host/H/S follow one of them\n";

constexpr int kMostThreads = 64;

// One word of a `--names` or `--fields` list, and the option that it switches on.
struct ListWord {
    std::string_view word;
    bool viewer::TextOptions::*option;
};

constexpr std::array kNameWords{
    ListWord{"payload", &viewer::TextOptions::names_payload},
    ListWord{"args", &viewer::TextOptions::names_payload},  // as babeltrace2 knows it, too
    ListWord{"arg", &viewer::TextOptions::names_payload},
    ListWord{"context", &viewer::TextOptions::names_context},
    ListWord{"ctx", &viewer::TextOptions::names_context},
    ListWord{"scope", &viewer::TextOptions::names_scope},
    ListWord{"header", &viewer::TextOptions::names_header},
};

constexpr std::array kFieldWords{
    ListWord{"trace", &viewer::TextOptions::shows_trace},
    ListWord{"trace:hostname", &viewer::TextOptions::shows_hostname},
    ListWord{"trace:domain", &viewer::TextOptions::shows_domain},
    ListWord{"trace:procname", &viewer::TextOptions::shows_procname},
    ListWord{"trace:vpid", &viewer::TextOptions::shows_vpid},
    ListWord{"loglevel", &viewer::TextOptions::shows_log_level},
    ListWord{"emf", &viewer::TextOptions::shows_emf_uri},
};

// Switches on exactly what the list names: "payload,header", "all" or "none".
void apply_list(const std::string& list, std::span<const ListWord> words, viewer::TextOptions& options) {
    for (const ListWord& known : words) options.*known.option = list == "all";
    if (list == "all" || list == "none") return;
    for (const std::string& word : CLI::detail::split(list, ',')) {
        const auto known = std::ranges::find(words, word, &ListWord::word);
        if (known == words.end())
            misuse("'{}' is none of {}, all and none", word,
                   fmt::join(words | std::views::transform(&ListWord::word), ", "));
        options.*known->option = true;
    }
}

// Colours are for people who look at a terminal that knows them, and have not said that they want none.
bool wants_colors(std::string_view color, int output) {
    if (color != "auto") return color == "always";
    const char* const no_color = std::getenv("NO_COLOR");
    const char* const terminal = std::getenv("TERM");
    const bool is_plain =
        terminal == nullptr || std::string_view(terminal).empty() || terminal == std::string_view("dumb");
    return ::isatty(output) != 0 && !is_plain && (no_color == nullptr || *no_color == '\0');
}

viewer::TextOptions text_options(const ViewArguments& arguments) {
    viewer::TextOptions options = arguments.text;
    options.has_delta = !arguments.has_no_delta;
    if (arguments.has_clock_date) options.time_format = viewer::TimeFormat::kDate;
    if (arguments.has_clock_seconds) options.time_format = viewer::TimeFormat::kSeconds;
    options.has_cycles = arguments.has_clock_cycles;
    if (!arguments.names.empty()) apply_list(arguments.names, kNameWords, options);
    if (!arguments.fields.empty()) apply_list(arguments.fields, kFieldWords, options);
    if (arguments.format != "json") {
        if (wants_colors(arguments.color, arguments.output ? -1 : STDOUT_FILENO))
            options.colors = viewer::kTerminalColors;
        if (wants_colors(arguments.color, STDERR_FILENO)) options.warning_colors = viewer::kTerminalColors;
        return options;
    }
    options.format = viewer::LineFormat::kJson;
    options.time_format = viewer::TimeFormat::kIso;
    options.is_gmt = true;
    return options;
}

// Puts the traces of sessions in the place of their names.
Result<void> find_traces(ViewArguments& arguments) {
    const bool names_url = std::ranges::any_of(arguments.traces, net::is_relay_url);
    LEAT_TRY(put_sessions_traces(arguments.traces, arguments.is_followed ? Begun::kLater : Begun::kNow));
    const auto url = std::ranges::find_if(arguments.traces, net::is_relay_url);
    if (!names_url && url != arguments.traces.end()) arguments.daemons_url = *url;
    if (!arguments.live_port) return {};
    if (!arguments.daemons_url) misuse("--live-port is for a session of the session daemon whose trace is at a relay");
    net::RelayUrl at_port = LEAT_TRY(net::parse_relay_url(*url));
    at_port.port = *arguments.live_port;
    *url = at_port.url_of(at_port.target_host, at_port.session);
    return {};
}

Result<Viewed> view(ViewArguments& arguments) {
    LEAT_TRY(find_traces(arguments));
    const viewer::TextOptions options = text_options(arguments);
    arguments.selection = arguments.selection_options.parse(arguments.text.is_gmt);
    const bool is_of_relay = std::ranges::any_of(arguments.traces, net::is_relay_url);
    if (!is_of_relay && (arguments.reconnects || arguments.from == "now"))
        misuse("--from and --reconnect are for sessions of a relay");
    const bool is_live = arguments.is_followed || is_of_relay;
    if (is_live && (arguments.selection.range.is_bounded() || arguments.selection.is_of_all_streams))
        misuse("--begin, --end, --timerange and --stream-intersection are for traces on disk that are finished");
    if (is_live && (arguments.clock_shift.seconds != 0 || arguments.clock_shift.ns != 0))
        misuse("--clock-offset and --clock-offset-ns are for traces on disk that are finished");
    const bool is_table = arguments.format == "csv";
    const bool is_silent = arguments.format == "none";
    if ((is_table || is_silent) && is_live)
        misuse("--format={} is for traces on disk that are finished", arguments.format);
    if (!is_table && arguments.columns) misuse("--columns are those of --format=csv");
    refuse_empty_columns(arguments.columns);
    if (is_table) return view_csv(arguments, options);
    if (is_silent) return view_none(arguments, options);
    if (is_of_relay) return view_relay(arguments, options);
    if (arguments.is_followed) return view_followed(arguments, options);
    return view_recorded(arguments, options);
}

}  // namespace

Result<void> open_output(const ViewArguments& arguments) {
    if (!arguments.output) return {};
    if (std::ranges::none_of(arguments.traces, net::is_relay_url))
        LEAT_TRY(check_outside_of_traces(*arguments.output, LEAT_TRY(paths_of(arguments.traces))));
    return redirect_standard_output(*arguments.output);
}

void add_view_command(CLI::App& app, int& exit_status) {
    const auto arguments = std::make_shared<ViewArguments>();
    CLI::App* command = app.add_subcommand("view", "print the events of a trace, oldest first");
    command->add_option("TRACE", arguments->traces,
                        "directories with traces in or below them, sessions of the session daemon, or "
                        "net://HOST[:PORT][/host/TARGET/SESSION]; none: the current session, or the newest ./leat-*");
    command->add_flag("--clock-date", arguments->has_clock_date, "print the date of each event");
    command->add_flag("--clock-gmt", arguments->text.is_gmt, "print times in UTC; --begin and --end are in UTC, too");
    command->add_flag("--clock-seconds", arguments->has_clock_seconds, "print times in seconds since 1970");
    command->add_flag("--clock-cycles", arguments->has_clock_cycles, "print times as values of the trace's clock");
    command
        ->add_option("--clock-offset", arguments->clock_shift.seconds,
                     "move the clocks of all traces by so many seconds")
        ->type_name("SECONDS");
    command->add_option("--clock-offset-ns", arguments->clock_shift.ns, "the same in nanoseconds; both add up")
        ->type_name("NS");
    command->add_flag("--no-delta", arguments->has_no_delta, "do not print the time since the previous event");
    command->add_option("-n,--names", arguments->names, "names to print: payload,context,scope,header; or all, none");
    command->add_option("-f,--fields", arguments->fields,
                        "fields to print: trace,trace:hostname,trace:domain,trace:procname,trace:vpid,loglevel,emf; or "
                        "all, none");
    command->add_flag("--follow", arguments->is_followed,
                      "go on while the trace is being written, until it is finished");
    command
        ->add_option("--from", arguments->from,
                     "what to print of a live session: all that the relay has, or what comes from now on")
        ->check(CLI::IsMember({"start", "now"}));
    command->add_flag("--reconnect", arguments->reconnects,
                      "when the relay or the session goes away, wait for its return");
    command
        ->add_option("--live-port", arguments->live_port,
                     "of the relay that has the session, where viewers come (default: 5344)")
        ->check(CLI::Range(1, 65535));
    command->add_option("--threads", arguments->threads, "threads that make text (default: one for each CPU)")
        ->check(CLI::Range(1, kMostThreads));
    arguments->selection_options.add_to(*command);
    command
        ->add_option(
            "--format", arguments->format,
            "text; json: an object a line for each event, or the list of a relay's sessions; csv: a table; none: "
            "read all events and print none, to see whether and how fast a trace can be read")
        ->check(CLI::IsMember({"text", "json", "csv", "none"}));
    command->add_option("-w,--output", arguments->output, "write to this file, not to standard output")
        ->type_name("FILE");
    command->add_option("--color", arguments->color, "colours in text: auto (on a terminal), always or never")
        ->check(CLI::IsMember({"auto", "always", "never"}));
    command->add_option("--columns", arguments->columns,
                        "of the table: time,time_ns,name,log_level, and fields and contexts by their names (default: "
                        "all but log_level)");
    command->footer(kExamples);
    command->callback([arguments, &exit_status] {
        let_writes_fail();
        auto viewed = view(*arguments);
        if (viewed) {
            if (*viewed == Viewed::kUntilNobodyRead) end_by_signal(SIGPIPE);
            return;
        }
        print_error(viewed.error());
        exit_status = kExitFailed;
    });
}

}  // namespace leat::cli
