#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "cli/child_process.hpp"
#include "cli/command.hpp"
#include "cli/preload.hpp"
#include "cli/readable_signals.hpp"
#include "cli/recording_report.hpp"
#include "cli/runtime_directory.hpp"
#include "host/destination.hpp"
#include "host/engine.hpp"

namespace leat::cli {
namespace {

namespace fs = std::filesystem;

struct RecordOptions {
    std::string output;
    std::string live;
    std::string session;
    std::vector<std::string> patterns;
    std::vector<std::string> exclusions;
    std::string log_level;
    std::string header = "compact";
    std::uint64_t ring_size = 1U << 20;
    std::uint64_t tracefile_size = 0;
    std::uint64_t tracefile_count = 0;
    std::vector<std::string> preload;
    std::vector<std::string> contexts{"vpid", "vtid", "procname"};
    std::string summary;
    std::vector<std::string> command;
};

constexpr char kRecordFooter[] =
    "Examples:\n"
    "  leat record -- ./server --port 80         record all events of a program that links libleat\n"
    "  leat record --preload libc -- python3 -c 'import json'\n"
    "                                            record memory allocations of any program\n"
    "  leat record -e 'io:*' -x 'io:poll*' -l info -o trace -- make -j2\n"
    "  leat view                                 print the newest trace here";

constexpr char kDefaultRelay[] = "net://127.0.0.1";

std::string default_output(const std::string& program) {
    std::array<char, 32> date{};
    const std::time_t now = std::time(nullptr);
    std::tm local{};
    ::localtime_r(&now, &local);
    std::strftime(date.data(), date.size(), "%Y%m%d-%H%M%S", &local);
    const std::string base = fmt::format("leat-{}-{}", fs::path(program).filename().string(), date.data());
    std::string name = base;
    std::error_code error;
    for (int i = 2; fs::exists(name, error); ++i) name = fmt::format("{}-{}", base, i);
    return name;
}

Result<std::uint32_t> context_bits(const std::vector<std::string>& names) {
    std::uint32_t bits = 0;
    for (const std::string& name : names) {
        if (name == "vpid")
            bits |= wire::kContextVpid;
        else if (name == "vtid")
            bits |= wire::kContextVtid;
        else if (name == "procname")
            bits |= wire::kContextProcname;
        else if (name == "ip")
            bits |= wire::kContextIp;
        else if (name != "none")
            return refused("unknown context \"{}\": use vpid, vtid, procname, ip, or none", name);
    }
    return bits;
}

Result<host::Destination> destination_of(const RecordOptions& options) {
    const bool is_url = net::is_relay_address(options.output);
    host::Destination destination{.is_live = !options.live.empty(),
                                  .tracefile_size = options.tracefile_size,
                                  .tracefile_count = options.tracefile_count};
    if (destination.is_live && !options.output.empty())
        return refused("--live and -o exclude each other: a live session is stored by its relay");
    if (options.tracefile_count != 0 && options.tracefile_size == 0)
        return refused("--tracefile-count says how many files of --tracefile-size are kept: give both");
    if (options.tracefile_size != 0 && !destination.is_live && !is_url)
        return refused("--tracefile-size needs a relay: send the trace to one with --live or -o net://HOST");
    if (destination.is_live || is_url)
        destination.relay = LEAT_TRY(net::parse_relay_address(is_url ? options.output : options.live));
    else
        destination.directory = options.output.empty() ? default_output(options.command.front()) : options.output;
    return destination;
}

// Names a session after its directory, or at a relay after the program, as readers look for that.
std::string default_session(const RecordOptions& options, const host::Destination& destination) {
    const fs::path path = destination.relay ? fs::path(options.command.front()) : destination.directory;
    return path.lexically_normal().filename().string();
}

// A relay makes a directory of the name.
Result<void> check_session_name(const std::string& name) {
    if (name.empty() || name.size() >= wire::kMaxSessionName || name.starts_with('.') ||
        name.find('/') != std::string::npos)
        return refused("\"{}\" cannot name a session: choose another with --session", name);
    return {};
}

Result<session::SessionParameters> session_parameters(const RecordOptions& options,
                                                      const host::Destination& destination) {
    if (destination.relay) LEAT_TRY(check_session_name(options.session));
    session::SessionParameters parameters;
    parameters.name = options.session;
    if (!options.patterns.empty()) parameters.rules.patterns = options.patterns;
    parameters.rules.exclusions = options.exclusions;
    if (!options.log_level.empty()) parameters.rules.log_level = LEAT_TRY(session::parse_log_level(options.log_level));
    parameters.header = options.header == "large" ? ring::HeaderKind::kLarge : ring::HeaderKind::kCompact;
    parameters.contexts = LEAT_TRY(context_bits(options.contexts));
    parameters.uid = ::getuid();
    if (!ring::is_valid_ring_size(options.ring_size))
        return refused("the ring size must be a power of two from 64K to 1G");
    parameters.ring_size = options.ring_size;
    return parameters;
}

// Passes on signals that somebody sent to us alone. A terminal sends its signals to the program as well.
void pass_on(const ReadableSignals& signals, const ChildProcess& child) {
    while (const auto signal = signals.next()) {
        const bool is_from_terminal = signal->ssi_code == SI_KERNEL;
        if (signal->ssi_signo != SIGCHLD && !is_from_terminal) child.send(static_cast<int>(signal->ssi_signo));
    }
}

// Starts the program, and runs the engine until the program has ended. Fails if it cannot be started.
Result<int> run_program(host::Engine& engine, const ReadableSignals& signals, const std::vector<std::string>& command,
                        const std::vector<ChildProcess::Variable>& variables) {
    ChildProcess child = LEAT_TRY(ChildProcess::start(command, variables));
    for (;;) {
        std::array own{pollfd{signals.fd(), POLLIN, 0}};
        engine.turn(own);
        if (own[0].revents == 0) continue;
        pass_on(signals, child);
        if (const auto exit_status = child.poll_exit_status()) return *exit_status;
    }
}

// 0 or the program's exit status; or an error that kept it from being recorded.
Result<int> record(const RecordOptions& options, const session::SessionParameters& parameters,
                   const host::Destination& destination) {
    const RuntimeDirectory runtime = LEAT_TRY(RuntimeDirectory::create());
    std::vector<ChildProcess::Variable> variables{{wire::kRuntimeDirectoryVariable, runtime.path()}};
    if (!options.preload.empty()) variables.emplace_back("LD_PRELOAD", LEAT_TRY(preload_variable(options.preload)));
    const ReadableSignals signals;
    const auto engine = LEAT_TRY(host::Engine::create());
    host::Recording& recording = engine->add(LEAT_TRY(host::create_recording(parameters, runtime.path(), destination)));
    auto exit_status = run_program(*engine, signals, options.command, variables);
    if (!exit_status) {
        recording.abandon();
        return exit_status;
    }
    recording.finish();
    const RecordedProgram program{.name = options.command.front(), .is_preloaded = !options.preload.empty()};
    const RecordingReport report(recording, destination, program, *exit_status);
    report.print();
    if (!options.summary.empty()) LEAT_TRY(report.write_summary(options.summary));
    // Scripts shall not take the program for failed because of what became of a trace at a relay.
    const bool is_failed = recording.output_error() && !destination.relay;
    return is_failed && *exit_status == kExitOk ? kExitFailed : *exit_status;
}

int run(RecordOptions& options) {
    const auto destination = destination_of(options);
    if (destination && options.session.empty()) options.session = default_session(options, *destination);
    const auto parameters =
        destination ? session_parameters(options, *destination) : tl::unexpected(destination.error());
    if (!parameters) {
        print_error(parameters.error());
        return kExitUsage;
    }
    const auto exit_status = record(options, *parameters, *destination);
    if (exit_status) return *exit_status;
    print_error(exit_status.error());
    return kExitFailed;
}

// An option that can be repeated, and takes a list with commas each time. It does not take several arguments: then it
// would also take the `--` after them.
CLI::Option* add_list(CLI::App& command, const std::string& names, std::vector<std::string>& values,
                      const std::string& description) {
    return command.add_option(names, values, description)
        ->expected(1)
        ->allow_extra_args(false)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void add_options(CLI::App& command, RecordOptions& options) {
    command
        .add_option("-o,--output", options.output,
                    "Trace directory (default: leat-PROGRAM-DATE), or net://HOST[:CONTROL[:DATA]], a relay")
        ->type_name("DIR");
    command
        .add_option("--live", options.live,
                    "Send the trace to a relay, for readers who follow it (default: net://127.0.0.1; net+udp://: as "
                    "datagrams)")
        ->expected(0, 1)
        ->default_str(kDefaultRelay)
        ->type_name("URL");
    command.add_option("--session", options.session, "Name of the session at the relay (default: the program's)")
        ->type_name("NAME");
    add_list(command, "-e,--event", options.patterns,
             "Record events of this name; * stands for any text (default: all)")
        ->type_name("GLOB");
    add_list(command, "-x,--exclude", options.exclusions, "Do not record events of this name")->type_name("GLOB");
    command.add_option("-l,--loglevel", options.log_level, "Only events as severe as this: emerg ... debug, or 0-14")
        ->type_name("LEVEL");
    command.add_option("--header", options.header, "Event headers: compact (few event types) or large (many)")
        ->check(CLI::IsMember({"compact", "large"}))
        ->capture_default_str();
    command
        .add_option("--ring-size", options.ring_size,
                    "Bytes of each CPU's ring, a power of two: 64K to 1G (default: 1M)")
        ->transform(CLI::AsSizeValue(false))
        ->type_name("SIZE");
    command
        .add_option("--tracefile-size", options.tracefile_size,
                    "At a relay: begin a new file for a stream when its file has this many bytes")
        ->transform(CLI::AsSizeValue(false))
        ->type_name("SIZE");
    command
        .add_option("--tracefile-count", options.tracefile_count,
                    "And keep only this many files of each stream: the oldest is removed")
        ->type_name("N");
    add_list(command, "--context", options.contexts,
             "What each event carries: vpid, vtid, procname (default: these three), ip, or none")
        ->delimiter(',')
        ->type_name("LIST");
    add_list(command, "--preload", options.preload, "Trace a program that has no tracepoints: libc, pthread, dl")
        ->delimiter(',')
        ->check(CLI::IsMember(preload_names()))
        ->type_name("LIST");
    command.add_option("--summary", options.summary, "Write the closing figures as JSON")->type_name("FILE");
    command.add_option("command", options.command, "The program and its arguments, after --")->required();
}

}  // namespace

void add_record_command(CLI::App& app, int& exit_status) {
    auto options = std::make_shared<RecordOptions>();
    CLI::App* command = app.add_subcommand("record", "trace a program from start to end");
    command->footer(kRecordFooter);
    add_options(*command, *options);
    command->callback([options, &exit_status] { exit_status = run(*options); });
}

}  // namespace leat::cli
