// `leat check` and `leat repair`: what is wrong with a trace, and a trace of all the rest.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.hpp"
#include "base/printable_text.hpp"
#include "base/unique_fd.hpp"
#include "cli/command.hpp"
#include "cli/json_text.hpp"
#include "cli/named_traces.hpp"
#include "cli/steer/quantities.hpp"
#include "ctf/tsdl/metadata.hpp"
#include "ctf/tsdl/tsdl_writer.hpp"
#include "net/relay_url.hpp"
#include "trace/stream_paths.hpp"
#include "trace/trace_directories.hpp"
#include "viewer/check/trace_check.hpp"

namespace leat::cli {
namespace {

namespace fs = std::filesystem;
using viewer::CheckedDirectory;
using viewer::CheckedFile;
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

struct CheckSums {
    explicit CheckSums(const TraceCheck& check) {
        for (const CheckedDirectory& directory : check.directories()) {
            for (const CheckedFile& file : directory.files) {
                packets += file.packets.size();
                lost_bytes += file.lost_bytes;
            }
        }
    }

    std::uint64_t packets = 0;
    std::uint64_t lost_bytes = 0;
};

Result<TraceCheck> check_all(CheckOptions& options) {
    LEAT_TRY(put_sessions_traces(options.traces));
    if (std::ranges::any_of(options.traces, net::is_relay_url))
        return refused("traces on disk are checked: those of a relay are below its --output directory");
    std::vector<fs::path> directories;
    for (const fs::path& path : LEAT_TRY(paths_of(options.traces)))
        std::ranges::move(LEAT_TRY(trace::find_trace_directories(path)), std::back_inserter(directories));
    return TraceCheck::run(directories);
}

std::string text_of(const Finding& finding) {
    const std::string where = finding.offset ? fmt::format(", offset {}", *finding.offset) : "";
    return printable(fmt::format("{}{}: {}", finding.file.string(), where, finding.what));
}

Json json_of(const TraceCheck& check) {
    const CheckSums sums(check);
    Json findings = Json::array();
    for (const Finding& finding : check.findings())
        findings.push_back({{"file", finding.file.string()},
                            {"offset", finding.offset ? Json(*finding.offset) : Json()},
                            {"what", finding.what}});
    return {{"ok", check.finding_count() == 0}, {"traces", check.directories().size()},
            {"packets", sums.packets},          {"events", check.events()},
            {"lost_bytes", sums.lost_bytes},    {"finding_count", check.finding_count()},
            {"findings", std::move(findings)}};
}

std::string readable_sums(const TraceCheck& check) {
    const CheckSums sums(check);
    return fmt::format("{} event{} in {} packet{} can be read, {} cannot", check.events(),
                       check.events() == 1 ? "" : "s", sums.packets, sums.packets == 1 ? "" : "s",
                       size_for_people(sums.lost_bytes));
}

void print_findings(const TraceCheck& check, std::FILE* to) {
    for (const Finding& finding : check.findings()) fmt::print(to, "{}\n", text_of(finding));
    if (check.finding_count() > check.findings().size())
        fmt::print(to, "and {} more\n", check.finding_count() - check.findings().size());
}

Result<bool> check(CheckOptions& options) {
    const TraceCheck check = LEAT_TRY(check_all(options));
    const bool is_sound = check.finding_count() == 0;
    if (options.format == "json") {
        fmt::print("{}\n", readable_json(json_of(check)));
    } else {
        print_findings(check, stdout);
        fmt::print("{}: {}\n", is_sound ? "nothing is wrong" : fmt::format("{} found", check.finding_count()),
                   readable_sums(check));
    }
    if (std::fflush(stdout) != 0) return io_error("cannot write");
    return is_sound;
}

Result<void> write_file(const fs::path& path, std::span<const std::span<const std::byte>> pieces) {
    const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0640));
    if (!file.is_open()) return io_error("cannot make " + path.string());
    for (const auto piece : pieces) LEAT_TRY(write_all(file.get(), piece));
    return {};
}

// Whole packets, one after the other: their indexes would be wrong, and readers make their own.
Result<void> write_trace(const CheckedDirectory& from, const fs::path& directory) {
    const std::string& text = from.longest->metadata_text;  // by which the packets were read
    // A damaged one in packets may have lost the comment that must be its first line ([CTF-1.8], section 7.1).
    const bool has_signature = text.starts_with(ctf::kMetadataSignature);
    const std::array metadata{std::as_bytes(std::span(std::string_view(has_signature ? "" : ctf::kTsdlSignature))),
                              std::as_bytes(std::span(text))};
    LEAT_TRY(write_file(directory / trace::kMetadataFile, metadata));
    for (const CheckedFile& checked : from.files) {
        const viewer::RecordedFile& file = *checked.file;
        std::vector<std::span<const std::byte>> pieces;
        pieces.reserve(checked.packets.size());
        for (const auto& packet : checked.packets)
            pieces.push_back(file.mapping.bytes().subspan(packet.offset, packet.properties.packet_size));
        if (!pieces.empty()) LEAT_TRY(write_file(directory / file.path.filename(), pieces));
        if (file.mapping.was_shortened()) return viewer::became_shorter(file);
    }
    return {};
}

Result<bool> repair(CheckOptions& options) {
    std::error_code error;
    if (options.output.empty()) return refused("--output is empty: name a new directory");
    if (fs::exists(options.output, error)) return refused("{} exists: name a new directory", options.output);
    const TraceCheck check = LEAT_TRY(check_all(options));
    const auto& directories = check.directories();
    std::size_t number = 0;
    for (const CheckedDirectory& from : directories) {
        // Several traces are beside each other.
        const fs::path directory =
            directories.size() == 1 ? fs::path(options.output) : fs::path(options.output) / fmt::format("{}", number++);
        if (!fs::create_directories(directory, error))
            return refused("cannot make {}: {}", directory.string(), error.message());
        LEAT_TRY(write_trace(from, directory));
    }
    print_findings(check, stderr);
    if (options.format == "json")
        fmt::print("{}\n", readable_json(json_of(check)));
    else
        fmt::print("{}; what can be is in {}: leat view {}\n", readable_sums(check), printable(options.output),
                   printable(options.output));
    if (std::fflush(stdout) != 0) return io_error("cannot write");
    return check.events() != 0 || check.finding_count() == 0;
}

// Of a command that says by its status whether all is well.
void run(Result<bool> (*command)(CheckOptions&), CheckOptions& options, int& exit_status) {
    const auto is_well = command(options);
    if (!is_well) print_error(is_well.error());
    if (!is_well || !*is_well) exit_status = kExitFailed;
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
