// `leat view`: traces on disk, as text.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "viewer/merge.hpp"
#include "viewer/recorded_trace.hpp"
#include "viewer/text_sink.hpp"
#include "viewer/trace_directories.hpp"

namespace leat::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kExamples =
    "Examples:\n"
    "  leat view                      the newest trace here, of those that leat record makes\n"
    "  leat view my-trace             one trace, or all traces below a directory, merged by time\n"
    "  leat view --clock-date a b     with the date; traces of two hosts in one order\n"
    "  leat view my-trace | head      the first events\n";

struct ViewArguments {
    std::vector<fs::path> paths{};
    std::string names{};
    std::string fields{};
    bool has_clock_date = false;
    bool has_clock_seconds = false;
    bool has_no_delta = false;
    viewer::TextOptions text{};
};

// One word of a `--names` or `--fields` list, and the option that it switches on.
struct ListWord {
    std::string_view word;
    bool viewer::TextOptions::*option;
};

constexpr std::array kNameWords{
    ListWord{"payload", &viewer::TextOptions::names_payload},
    ListWord{"context", &viewer::TextOptions::names_context},
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

// "payload,header", "all" or "none": exactly these are on.
void apply_list(const std::string& list, std::span<const ListWord> words, viewer::TextOptions& options) {
    for (const ListWord& known : words) options.*known.option = list == "all";
    if (list == "all" || list == "none") return;
    for (const std::string& word : CLI::detail::split(list, ',')) {
        const auto known = std::ranges::find(words, word, &ListWord::word);
        if (known == words.end()) throw CLI::ValidationError("'" + word + "' is not in the list of names");
        options.*known->option = true;
    }
}

viewer::TextOptions text_options(const ViewArguments& arguments) {
    viewer::TextOptions options = arguments.text;
    options.has_delta = !arguments.has_no_delta;
    if (arguments.has_clock_date) options.time_format = viewer::TimeFormat::kDate;
    if (arguments.has_clock_seconds) options.time_format = viewer::TimeFormat::kSeconds;
    if (!arguments.names.empty()) apply_list(arguments.names, kNameWords, options);
    if (!arguments.fields.empty()) apply_list(arguments.fields, kFieldWords, options);
    return options;
}

// What `leat record` left here last.
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
        if (!viewer::find_trace_directories(name)) continue;
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

Result<void> view(const ViewArguments& arguments) {
    std::vector<fs::path> paths = arguments.paths;
    if (paths.empty()) paths.push_back(LEAT_TRY(newest_recording()));
    const auto traces = LEAT_TRY(viewer::open_traces(paths));
    viewer::Merge merge = LEAT_TRY(viewer::Merge::make(traces));
    viewer::TextSink sink(text_options(arguments), STDOUT_FILENO, STDERR_FILENO);
    auto printed = print(merge, sink);
    LEAT_TRY(sink.flush());
    if (!printed || sink.is_closed()) return printed;
    // Damage is told last, below the events that could be read in spite of it.
    for (const auto& trace : traces)
        if (trace->damage()) return tl::unexpected(*trace->damage());
    return {};
}

}  // namespace

void add_view_command(CLI::App& app, int& exit_status) {
    const auto arguments = std::make_shared<ViewArguments>();
    CLI::App* command = app.add_subcommand("view", "print the events of a trace, oldest first");
    command->add_option("TRACE", arguments->paths,
                        "directories with traces in or below them; none: the newest ./leat-*");
    command->add_flag("--clock-date", arguments->has_clock_date, "print the date of each event");
    command->add_flag("--clock-gmt", arguments->text.is_gmt, "print times in UTC, not in the local time zone");
    command->add_flag("--clock-seconds", arguments->has_clock_seconds, "print times in seconds since 1970");
    command->add_flag("--no-delta", arguments->has_no_delta, "do not print the time since the event before");
    command->add_option("--names", arguments->names, "names to print: payload,context,scope,header; or all, none");
    command->add_option("--fields", arguments->fields,
                        "fields to print: trace,trace:hostname,trace:domain,trace:procname,trace:vpid,loglevel,emf; or "
                        "all, none");
    command->footer(kExamples);
    command->callback([arguments, &exit_status] {
        // A closed pipe is an answer of write(), not a signal.
        std::signal(SIGPIPE, SIG_IGN);
        auto viewed = view(*arguments);
        if (viewed) return;
        print_error(viewed.error());
        exit_status = kExitFailed;
    });
}

}  // namespace leat::cli
