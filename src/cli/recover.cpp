#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>

#include "base/descriptors.hpp"
#include "base/printable_text.hpp"
#include "base/shell_word.hpp"
#include "cli/command.hpp"
#include "cli/json_text.hpp"
#include "cli/steer/quantities.hpp"
#include "cli/tell.hpp"
#include "cli/unused_name.hpp"
#include "host/recovery.hpp"
#include "trace/trace_directories.hpp"

namespace leat::cli {
namespace {

using host::LeftSession;

struct RecoverOptions {
    std::string directory;
    std::string output;
    std::string format = "text";
};

constexpr char kRecoverFooter[] =
    "The rings are those of a session that was recorded with --shm-path, and did not come to its end: the machine, or\n"
    "everything that recorded it, has crashed. They stay as they are. Events that were stored already are not in the "
    "new\n"
    "trace: read both together.\n"
    "Examples:\n"
    "  leat create web --shm-path /var/lib/leat-rings && leat enable-event '*' && leat start\n"
    "  leat recover /var/lib/leat-rings          if one session was left there\n"
    "  leat recover /var/lib/leat-rings/web-20261122-141500 -o web-rest\n"
    "  leat view ~/leat-traces/web-20261122-141500 web-rest";

std::string count_of(std::uint64_t count, const char* what) {
    return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

struct Sums {
    explicit Sums(const LeftSession::Recovered& recovered) {
        for (const LeftSession::RecoveredTrace& trace : recovered.traces) {
            events += trace.events;
            bytes += trace.bytes;
            discarded += trace.discarded;
        }
    }

    std::uint64_t events = 0;
    std::uint64_t bytes = 0;
    std::uint64_t discarded = 0;
};

void print_text(const LeftSession& session, const LeftSession::Recovered& recovered, const std::string& output) {
    for (const LeftSession::RecoveredTrace& trace : recovered.traces)
        for (const std::string& warning : trace.warnings) print_warning(fmt::format("{}: {}", trace.path, warning));
    for (const std::string& error : recovered.errors) tell("leat: {}", printable(error));
    if (recovered.traces.empty()) return;
    const Sums sums(recovered);
    fmt::print("session {}: {} of {} recovered, {}, {} discarded", printable(session.name()),
               count_of(sums.events, "event"), count_of(recovered.traces.size(), "trace"), size_for_people(sums.bytes),
               sums.discarded);
    if (sums.bytes == 0) return fmt::print(": all that the rings had is stored\n");
    fmt::print("; see them with: leat view {}\n", shell_word(output));
    const std::string& stored_in = recovered.traces.front().stored_in;
    if (!stored_in.empty()) fmt::print("what was stored before is in {}\n", printable(stored_in));
}

void print_json(const LeftSession& session, const LeftSession::Recovered& recovered, const std::string& output) {
    const Sums sums(recovered);
    Json result;
    result["ok"] = recovered.errors.empty();
    result["session"] = session.name();
    result["directory"] = session.directory().string();
    if (sums.bytes != 0) result["output"] = output;
    result["events"] = sums.events;
    result["bytes"] = sums.bytes;
    result["discarded"] = sums.discarded;
    result["traces"] = Json::array();
    for (const LeftSession::RecoveredTrace& trace : recovered.traces)
        result["traces"].push_back({{"path", trace.path},
                                    {"stored_in", trace.stored_in},
                                    {"events", trace.events},
                                    {"bytes", trace.bytes},
                                    {"discarded", trace.discarded},
                                    {"warnings", trace.warnings}});
    result["errors"] = recovered.errors;
    fmt::print("{}\n", readable_json(result));
}

Result<bool> recover(const RecoverOptions& options) {
    std::signal(SIGXFSZ, SIG_IGN);  // a file that may not be so long is an error
    const LeftSession session = LEAT_TRY(LeftSession::find(options.directory));
    const std::string wanted = options.output.empty() ? session.name() + "-recovered" : options.output;
    if (trace::is_inside(wanted, options.directory))
        return refused("{} is inside of {}, which stays as it is: name a directory elsewhere with --output", wanted,
                       options.directory);
    std::optional<UnusedDirectory> made;
    const std::string output = options.output.empty() ? made.emplace(wanted).path() : wanted;
    const LeftSession::Recovered recovered = LEAT_TRY(session.store_in(output));
    (options.format == "json" ? print_json : print_text)(session, recovered, output);
    if (std::fflush(stdout) != 0) return io_error("cannot write");
    return recovered.errors.empty();
}

int run(const RecoverOptions& options) {
    (void)raise_descriptor_limit();  // each trace of a process takes some
    const auto is_whole = recover(options);
    if (!is_whole) return report_failure(is_whole.error(), options.format);
    return *is_whole ? kExitOk : kExitFailed;
}

}  // namespace

void add_recover_command(CLI::App& app, int& exit_status) {
    auto options = std::make_shared<RecoverOptions>();
    CLI::App* command = app.add_subcommand("recover", "make a trace of rings that a crash has left");
    command->footer(kRecoverFooter);
    command->add_option("directory", options->directory, "Directory of a session below that of --shm-path, or that one")
        ->required()
        ->type_name("DIR");
    command->add_option("-o,--output", options->output, "Trace directory (default: SESSION-recovered)")
        ->type_name("DIR");
    command->add_option("--format", options->format, "text or json")
        ->check(CLI::IsMember({"text", "json"}))
        ->capture_default_str();
    command->callback([options, &exit_status] { exit_status = run(*options); });
}

}  // namespace leat::cli
