// `leat check` and `leat repair`: what is wrong with a trace, and a trace of all the rest.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/printable_text.hpp"
#include "base/shell_word.hpp"
#include "cli/command.hpp"
#include "cli/json_text.hpp"
#include "cli/misuse.hpp"
#include "cli/named_traces.hpp"
#include "cli/progress_bar.hpp"
#include "cli/steer/quantities.hpp"
#include "cli/stop_signals.hpp"
#include "cli/tell.hpp"
#include "trace/trace_directories.hpp"
#include "viewer/check/check_progress.hpp"
#include "viewer/check/finding.hpp"
#include "viewer/check/repaired_trace.hpp"
#include "viewer/check/trace_check.hpp"

namespace leat::cli {
namespace {

namespace fs = std::filesystem;
using viewer::Finding;
using viewer::TraceCheck;

constexpr const char* kCheckExamples =
    "Exit status: 0 if nothing is wrong, 1 if something is.\n"
    "Examples:\n"
    "  leat check my-trace            file, offset and reason of all that is wrong\n"
    "  leat check --format=json my-trace | jq '.findings[0]'\n";
constexpr const char* kRepairExamples =
    "Examples:\n"
    "  leat repair crashed -o repaired && leat view repaired\n";

struct CheckOptions {
    std::vector<std::string> traces{};
    std::string output{};  // of repair
    std::string format = "text";
};

Result<trace::TraceDirectories> directories_of(CheckOptions& options) {
    LEAT_TRY(put_traces_on_disk(options.traces));
    trace::TraceDirectories all;
    for (const fs::path& path : LEAT_TRY(paths_of(options.traces))) {
        trace::TraceDirectories found = LEAT_TRY(trace::find_trace_directories(path));
        std::ranges::move(found.paths, std::back_inserter(all.paths));
        std::ranges::move(found.denied, std::back_inserter(all.denied));
    }
    return all;
}

std::string text_of(const Finding& finding) {
    const std::string where = finding.offset ? fmt::format(", offset {}", *finding.offset) : "";
    return printable(fmt::format("{}{}: {}", finding.file.string(), where, finding.what));
}

Json json_of(const TraceCheck& check) {
    Json findings = Json::array();
    for (const Finding& finding : check.findings().told())
        findings.push_back({{"file", finding.file.string()},
                            {"offset", finding.offset ? Json(*finding.offset) : Json()},
                            {"what", finding.what}});
    return {{"ok", check.findings().count() == 0}, {"traces", check.directories().size()},
            {"packets", check.packets()},          {"events", check.events()},
            {"lost_bytes", check.lost_bytes()},    {"finding_count", check.findings().count()},
            {"findings", std::move(findings)}};
}

// `output`: empty if there is no new trace.
Json json_of_repair(const TraceCheck& check, const std::string& output) {
    Json json = json_of(check);
    json["ok"] = !output.empty();
    if (!output.empty()) json["output"] = output;
    return json;
}

std::string readable_sums(const TraceCheck& check) {
    return fmt::format("{} event{} in {} packet{} can be read, {} cannot", check.events(),
                       check.events() == 1 ? "" : "s", check.packets(), check.packets() == 1 ? "" : "s",
                       size_for_people(check.lost_bytes()));
}

std::vector<std::string> lines_of(const viewer::Findings& findings) {
    std::vector<std::string> lines;
    for (const Finding& finding : findings.told()) lines.push_back(text_of(finding));
    const std::size_t untold = findings.count() - findings.told().size();
    if (untold != 0) lines.push_back(fmt::format("and {} more", untold));
    return lines;
}

Result<bool> check(CheckOptions& options) {
    const trace::TraceDirectories directories = LEAT_TRY(directories_of(options));
    viewer::CheckProgress progress(TraceCheck::kPasses);
    ProgressBar bar(false);
    bar.follow<1>(progress);
    const TraceCheck check = LEAT_TRY(TraceCheck::run(directories, progress));
    bar.clear();
    const viewer::Findings& findings = check.findings();
    const bool is_sound = findings.count() == 0;
    if (options.format == "json") {
        fmt::print("{}\n", readable_json(json_of(check)));
    } else {
        for (const std::string& line : lines_of(findings)) fmt::print("{}\n", line);
        fmt::print("{}: {}\n", is_sound ? "nothing is wrong" : fmt::format("{} found", findings.count()),
                   readable_sums(check));
    }
    if (std::fflush(stdout) != 0) return io_error("cannot write");
    return is_sound;
}

// The new directory, by a path without links. What is written inside of a trace would be part of it for whoever reads
// that again.
Result<fs::path> output_path(const CheckOptions& options, const std::vector<fs::path>& directories) {
    std::error_code error;
    fs::path path = options.output;
    if (!path.has_filename()) path = path.parent_path();  // it ended in '/'
    if (fs::symlink_status(path, error).type() != fs::file_type::not_found)
        return refused("{} exists: name a new directory", options.output);
    path = fs::weakly_canonical(fs::absolute(path, error), error);
    if (error) return refused("{}: {}", options.output, error.message());
    if (!path.has_filename()) path = path.parent_path();  // it ended in "/."
    const auto named = LEAT_TRY(paths_of(options.traces));
    for (const auto& traces : {named, directories})
        for (const fs::path& trace : traces)
            if (trace::is_inside(path, trace))
                return refused("--output {} is inside of {}, which is read: name a directory elsewhere", options.output,
                               trace.string());
    return path;
}

Result<bool> repair(CheckOptions& options) {
    std::signal(SIGXFSZ, SIG_IGN);  // a file that may not be so long is an error
    const trace::TraceDirectories directories = LEAT_TRY(directories_of(options));
    const fs::path output = LEAT_TRY(output_path(options, directories.paths));
    viewer::CheckProgress progress(TraceCheck::kPasses + 1);
    ProgressBar bar(false);
    bar.follow<1>(progress);
    const TraceCheck check = LEAT_TRY(TraceCheck::run(directories, progress));
    bar.clear();
    for (const std::string& line : lines_of(check.findings())) tell("{}", line);
    const bool is_saved = check.events() != 0 || check.findings().count() == 0;
    if (is_saved) {
        const StopSignals stop;
        progress.ask(
            [&] { return stop.has_come() ? refused("interrupted: there is no {}", options.output) : Result<void>(); });
        LEAT_TRY(viewer::write_repaired_trace(check, output, progress));
    }
    bar.clear();
    if (options.format == "json")
        fmt::print("{}\n", readable_json(json_of_repair(check, is_saved ? options.output : "")));
    else if (is_saved)
        fmt::print("{}; what can be is in {}: leat view {}\n", readable_sums(check), printable(options.output),
                   shell_word(options.output));
    else
        fmt::print("{}: no trace is made\n", readable_sums(check));
    if (std::fflush(stdout) != 0) return io_error("cannot write");
    return is_saved;
}

// Of a command that says by its status whether all is well.
void run(Result<bool> (*command)(CheckOptions&), CheckOptions& options, int& exit_status) {
    const auto is_well = command(options);
    if (!is_well)
        exit_status = report_failure(is_well.error(), options.format);
    else if (!*is_well)
        exit_status = kExitFailed;
}

}  // namespace

void add_check_commands(CLI::App& app, int& exit_status) {
    const auto options = std::make_shared<CheckOptions>();
    const auto add = [&](const char* name, const char* help, const char* footer) {
        CLI::App* command = app.add_subcommand(name, help);
        command->add_option("TRACE", options->traces,
                            "directories with traces in or below them, or sessions of the session daemon; none: the "
                            "current session, or the newest ./leat-*");
        command->add_option("--format", options->format, "text or json")->check(CLI::IsMember({"text", "json"}));
        command->footer(footer);
        return command;
    };
    CLI::App* const check_command = add("check", "tell all that is wrong with a trace", kCheckExamples);
    check_command->callback([options, &exit_status] { run(check, *options, exit_status); });
    CLI::App* const repair_command = add("repair", "make a trace of all that can be read of another", kRepairExamples);
    repair_command->add_option("-o,--output", options->output, "the new directory")->required();
    repair_command->callback([options, &exit_status] { run(repair, *options, exit_status); });
}

}  // namespace leat::cli
