#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

#include "base/descriptors.hpp"
#include "base/local_time.hpp"
#include "base/unique_fd.hpp"
#include "cli/child_process.hpp"
#include "cli/command.hpp"
#include "cli/end_by_signal.hpp"
#include "cli/ignored_signal.hpp"
#include "cli/preload.hpp"
#include "cli/readable_signals.hpp"
#include "cli/recording_report.hpp"
#include "cli/repeated_option.hpp"
#include "cli/runtime_directory.hpp"
#include "cli/size_option.hpp"
#include "cli/snapshot_report.hpp"
#include "cli/steer/comma_list.hpp"
#include "cli/steer/limit_options.hpp"
#include "cli/steer/quantities.hpp"
#include "cli/tell.hpp"
#include "cli/unused_name.hpp"
#include "host/destination.hpp"
#include "host/recorder.hpp"
#include "session/contexts.hpp"
#include "session/memory_directory.hpp"

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
    std::string mode = "discard";
    bool is_flight_recorder = false;
    std::vector<std::string> snapshot_on{};
    std::string blocking_timeout = "inf";
    std::string read_period{};
    std::uint64_t tracefile_size = 0;
    std::uint64_t tracefile_count = 0;
    LimitOptions limits{};
    std::vector<std::string> preload;
    std::vector<std::string> contexts{"vpid", "vtid", "procname"};
    std::string summary;
    std::string shm_path{};
    std::vector<std::string> command;
};

constexpr char kRecordFooter[] =
    "Examples:\n"
    "  leat record -- ./server --port 80         record all events of a program that links libleat\n"
    "  leat record --preload libc -- python3 -c 'import json'\n"
    "                                            record memory allocations of any program\n"
    "  leat record -e 'io:*' -x 'io:poll*' -l info -o trace -- make -j2\n"
    "  leat record --flight-recorder --snapshot-on 'app:error' -- ./server\n"
    "                                            keep the last events, store them after an error or a crash\n"
    "  leat view                                 print the newest trace here, or that of the current session";

constexpr char kDefaultRelay[] = "net://127.0.0.1";

std::string default_output(const std::string& program) {
    return fmt::format("leat-{}-{}", fs::path(program).filename().string(), local_time_text("%Y%m%d-%H%M%S"));
}

Result<session::Contexts> contexts_of(std::vector<std::string> names) {
    if (std::erase(names, "none") != 0 && !names.empty()) return refused("--context none stands alone");
    return session::parse_contexts(names);
}

Result<host::Destination> destination_of(const RecordOptions& options, std::optional<UnusedDirectory>& made) {
    const bool is_url = options.output.find("://") != std::string::npos;
    host::Destination destination{.is_live = !options.live.empty()};
    if (destination.is_live && is_url)
        return refused("a session goes to one relay: give --live, or -o with its address, or --live and -o DIR");
    if (destination.is_live || is_url)
        destination.relay = LEAT_TRY(net::parse_relay_address(is_url ? options.output : options.live));
    if (!options.output.empty() && !is_url) destination.directory = options.output;
    if (!destination.relay && options.output.empty())
        destination.directory = made.emplace(default_output(options.command.front())).path();
    return destination;
}

// Names a session after its directory, or at a relay after the program, as readers look for that.
std::string default_session(const RecordOptions& options, const host::Destination& destination) {
    fs::path path = destination.relay ? fs::path(options.command.front()) : destination.directory;
    path = path.lexically_normal();
    return (path.has_filename() ? path : path.parent_path()).filename().string();
}

// A relay makes a directory of the name.
Result<void> check_session_name(const std::string& name) {
    if (name.empty() || name.size() >= wire::kMaxSessionName || name.starts_with('.') ||
        name.find('/') != std::string::npos)
        return refused("\"{}\" cannot name a session: choose another with --session", name);
    return {};
}

Result<std::uint32_t> blocking_timeout_us(const RecordOptions& options) {
    if (options.blocking_timeout == "inf") return wire::kBlocksForever;
    const std::uint64_t timeout_us = LEAT_TRY(parse_period(options.blocking_timeout));
    if (timeout_us == wire::kNoBlocking || timeout_us >= wire::kBlocksForever)
        return refused("--blocking-timeout is more than 0 and at most 71 minutes, or inf");
    return static_cast<std::uint32_t>(timeout_us);
}

Result<std::uint32_t> read_period_us(const RecordOptions& options) {
    const std::uint64_t period_us = LEAT_TRY(parse_period(options.read_period));
    if (!session::is_valid_period(period_us))
        return refused("--read-period is from 1 ms to 1 minute, or 0 for the default");
    return static_cast<std::uint32_t>(period_us);
}

Result<trace::FileLimits> file_limits(const RecordOptions& options) {
    const trace::FileLimits limits{.size = options.tracefile_size, .count = options.tracefile_count};
    if (limits.count != 0 && limits.size == 0)
        return refused("--tracefile-count says how many files of --tracefile-size are kept: give both");
    if (limits.size != 0 && limits.size < trace::FileLimits::kSmallestSize)
        return refused("--tracefile-size is at least {} bytes", trace::FileLimits::kSmallestSize);
    return limits;
}

Result<session::Channel> channel_of(const RecordOptions& options) {
    std::optional<int> log_level;
    if (!options.log_level.empty()) log_level = LEAT_TRY(session::parse_log_level(options.log_level));
    const std::vector<std::string> patterns = split_at_commas(options.patterns);
    const std::vector<std::string> exclusions = split_at_commas(options.exclusions);
    for (const std::vector<std::string>& names : {patterns, exclusions, split_at_commas(options.snapshot_on)})
        if (std::ranges::find(names, "") != names.end())
            return refused("the name of an event is empty: * stands for any");
    if (options.mode != "blocking" && options.blocking_timeout != "inf")
        return refused("--blocking-timeout is for --mode=blocking");
    session::Channel channel;
    channel.rules =
        session::make_rules(patterns.empty() ? std::vector<std::string>{"*"} : patterns, exclusions, log_level);
    channel.header = *session::header_kind(options.header);  // one that was checked
    channel.contexts = LEAT_TRY(contexts_of(options.contexts));
    if (!ring::is_valid_ring_size(options.ring_size))
        return refused("the ring size must be a power of two from 64K to 1G");
    channel.ring_size = options.ring_size;
    if (options.mode == "blocking") channel.blocking_timeout_us = LEAT_TRY(blocking_timeout_us(options));
    if (!options.read_period.empty()) channel.read_period_us = LEAT_TRY(read_period_us(options));
    channel.files = LEAT_TRY(file_limits(options));
    channel.overwrites = options.is_flight_recorder;
    return channel;
}

Result<void> check_flight_recorder(const RecordOptions& options, const host::Destination& destination) {
    if (!options.is_flight_recorder && !options.snapshot_on.empty())
        return refused("--snapshot-on is for the flight recorder: add --flight-recorder");
    if (!options.is_flight_recorder) return {};
    LEAT_TRY(host::check_place_of_snapshots(destination));
    if (options.mode == "blocking")
        return refused("--flight-recorder overwrites the oldest events: no --mode=blocking");
    if (options.tracefile_size != 0)
        return refused("--flight-recorder limits its snapshots by --ring-size or --max-size, not by --tracefile-size");
    const auto limits = LEAT_TRY(limits_of(options.limits));
    const std::uint64_t smallest = 2 * ring::block_size(options.ring_size);
    if (limits.max_size != 0 && limits.max_size < smallest)
        return refused("--max-size is at least {} bytes, two packets of a ring of {}: or choose a smaller --ring-size",
                       smallest, options.ring_size);
    return {};
}

Result<session::Session::Parameters> session_parameters(const RecordOptions& options,
                                                        const host::Destination& destination) {
    if (destination.relay || !options.shm_path.empty()) LEAT_TRY(check_session_name(options.session));
    session::Session::Parameters parameters{.name = options.session, .uid = ::getuid()};
    LEAT_TRY(check_flight_recorder(options, destination));
    parameters.channels.push_back(LEAT_TRY(channel_of(options)));
    if (!options.snapshot_on.empty())
        parameters.channels.push_back(
            session::trigger_channel(split_at_commas(options.snapshot_on), parameters.channels.front()));
    return parameters;
}

bool is_of_terminal(const signalfd_siginfo& signal) {
    const auto number = static_cast<int>(signal.ssi_signo);
    // One that hangs up tells the leader of its session alone.
    if (number == SIGHUP && ::getsid(0) == ::getpid()) return false;
    return signal.ssi_code == SI_KERNEL &&
           (number == SIGINT || number == SIGQUIT || number == SIGHUP || number == SIGWINCH);
}

// Passes on signals that somebody sent to us alone, and those of timers that were set before we began. A terminal sends
// its signals to the program as well.
// A flight recorder keeps SIGUSR2, which asks it for a snapshot: returns whether there was one.
bool pass_on(const ReadableSignals& signals, const ChildProcess& child, bool is_flight_recorder) {
    bool is_snapshot_wanted = false;
    while (const auto signal = signals.next()) {
        if (signal->ssi_signo == SIGUSR2 && is_flight_recorder)
            is_snapshot_wanted = true;
        else if (signal->ssi_signo != SIGCHLD && !is_of_terminal(*signal))
            child.send(*signal);
    }
    return is_snapshot_wanted;
}

// Else who reads what the program prints would wait for us, too, when the program has closed it. A summary may go
// there.
void leave_input_and_output(const std::string& summary) {
    if (summary.starts_with("/dev/") || summary.starts_with("/proc/")) return;
    const UniqueFd nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO})
        if (nothing.is_open() && ::fcntl(fd, F_GETFD) >= 0) ::dup2(nothing.get(), fd);
}

// Starts the program, and records until the program has ended. Fails if it cannot be started.
Result<ProcessEnd> run_program(host::Recorder& recorder, const ReadableSignals& signals,
                               const std::vector<std::string>& command,
                               const std::vector<ChildProcess::Variable>& variables, const session::Limits& limits,
                               const std::string& summary, SnapshotReport& snapshots) {
    ChildProcess child = LEAT_TRY(ChildProcess::start(
        command, variables, {.blocked = signals.blocked_before(), .not_ignored = signals.ignored()}));
    // Each stream takes two. The program keeps the limit that it would have without us.
    (void)raise_descriptor_limit();
    leave_input_and_output(summary);
    bool is_stop_told = false;
    for (;;) {
        std::array own{pollfd{signals.fd(), POLLIN, 0}};
        recorder.turn(own);
        for (const auto& made : recorder.take_snapshots_made()) snapshots.add(made, "asked for by the program");
        if (own[0].revents != 0) {
            if (pass_on(signals, child, recorder.recording().is_for_snapshots()))
                snapshots.add(recorder.take_snapshot(), "asked for by signal");
            if (const auto end = child.poll_end()) return *end;
        }
        if (recorder.is_stopped() && !std::exchange(is_stop_told, true))
            tell("leat: {}; {} runs on", text_of_stop(recorder.stopped_by(), limits), command.front());
    }
}

// Where the rings are files, if they are to be: a directory that goes away when there is nothing left in it.
class RingDirectory {
  public:
    RingDirectory() = default;
    explicit RingDirectory(fs::path path) : path_(std::move(path)) {}
    ~RingDirectory() {
        if (!path_.empty()) session::MemoryDirectory::remove_of_session(path_);
    }
    RingDirectory(const RingDirectory&) = delete;
    RingDirectory& operator=(const RingDirectory&) = delete;

    [[nodiscard]] const fs::path& path() const { return path_; }

  private:
    fs::path path_;
};

// Unless something could not be stored that they have.
void end_files(host::Recorder& recorder, const RingDirectory& directory, bool is_stored) {
    if (directory.path().empty() || is_stored) return recorder.remove_files();
    tell("leat: what is not stored stays in {}: see leat recover", directory.path().string());
}

// How the program has ended, or we have in its stead; or an error that kept it from being recorded.
Result<ProcessEnd> record(const RecordOptions& options, session::Session::Parameters parameters,
                          const host::Destination& destination, const session::Limits& limits,
                          const ReadableSignals& signals) {
    const RingDirectory rings(options.shm_path.empty() ? fs::path()
                                                       : LEAT_TRY(session::MemoryDirectory::make_for_session(
                                                             options.shm_path, parameters.name)));
    parameters.memory_directory = rings.path();
    parameters.is_kept = !rings.path().empty();
    const RuntimeDirectory runtime = LEAT_TRY(RuntimeDirectory::create());
    std::vector<ChildProcess::Variable> variables{{wire::kRecorderDirectoryVariable, runtime.path()}};
    // Whoever starts the program asks for it.
    if (options.mode == "blocking") variables.emplace_back("LEAT_ALLOW_BLOCKING", "1");
    if (!options.preload.empty()) variables.emplace_back("LD_PRELOAD", LEAT_TRY(preload_variable(options.preload)));
    const auto recorder = LEAT_TRY(host::Recorder::create(parameters, runtime.path(), destination, limits));
    // Whoever wants the end by now does not want the beginning.
    if (const auto signal = signals.take_end()) {
        recorder->abandon();
        return ProcessEnd::by_signal(*signal);
    }
    SnapshotReport snapshots;
    auto end = run_program(*recorder, signals, options.command, variables, limits, options.summary, snapshots);
    if (!end) {
        recorder->abandon();
        return end;
    }
    recorder->finish();
    if (options.is_flight_recorder) snapshots.add(recorder->take_snapshot(), "at the end");
    const RecordedProgram program{
        .name = options.command.front(), .is_preloaded = !options.preload.empty(), .limits = limits};
    const RecordingReport report(*recorder, destination, program, snapshots, *end);
    report.print();
    end_files(*recorder, rings, !recorder->recording().output_error() && !snapshots.has_failed());
    const auto summarized = options.summary.empty() ? Result<void>() : report.write_summary(options.summary);
    if (!summarized) print_error(summarized.error());
    // Scripts shall not take the program for failed because of what became of a trace at a relay.
    const bool is_failed = !summarized || (destination.has_directory() &&
                                           (recorder->recording().output_error() || snapshots.has_failed()));
    return is_failed && end->exit_status == kExitOk ? ProcessEnd{.exit_status = kExitFailed} : *end;
}

ProcessEnd run(RecordOptions& options) {
    const ReadableSignals signals;  // until all that is made here is gone again
    std::optional<UnusedDirectory> made;
    const auto destination = destination_of(options, made);
    if (destination && options.session.empty()) options.session = default_session(options, *destination);
    const auto parameters =
        destination ? session_parameters(options, *destination) : tl::unexpected(destination.error());
    const auto limits = parameters ? limits_of(options.limits) : tl::unexpected(parameters.error());
    if (!limits) {
        print_error(limits.error());
        return {.exit_status = kExitUsage};
    }
    const auto end = record(options, *parameters, *destination, *limits, signals);
    if (end) return *end;
    if (const auto signal = signals.take_end()) return ProcessEnd::by_signal(*signal);
    print_error(end.error());
    return {.exit_status = kExitFailed};
}

// A list with commas each time.
CLI::Option* add_list(CLI::App& command, const std::string& names, std::vector<std::string>& values,
                      const std::string& description) {
    return repeated(command.add_option(names, values, description));
}

// Rings, and the files that they are stored in.
void add_storage_options(CLI::App& command, RecordOptions& options) {
    command
        .add_option("--header", options.header,
                    "Event headers: compact (few event types), large (many) or tiny (times of 256 ns)")
        ->check(CLI::IsMember({"compact", "large", "tiny"}))
        ->capture_default_str();
    command
        .add_option("--ring-size", options.ring_size,
                    "Bytes of each CPU's ring, a power of two: 64K to 1G (default: 1M)")
        ->transform(as_size())
        ->type_name("SIZE");
    command
        .add_option("--mode", options.mode,
                    "When a ring is full: discard events, or block the program until there is room")
        ->check(CLI::IsMember({"discard", "blocking"}))
        ->capture_default_str();
    command
        .add_option("--blocking-timeout", options.blocking_timeout,
                    "With --mode=blocking: block for this long at most (default: inf, no limit)")
        ->type_name("PERIOD");
    command
        .add_option("--read-period", options.read_period,
                    "Longest time from an event until it is in the trace, 1ms to 1m (default: 100ms)")
        ->type_name("PERIOD");
    command
        .add_option("--tracefile-size", options.tracefile_size,
                    "Begin a new file for a stream when its file has this many bytes")
        ->transform(as_size())
        ->type_name("SIZE");
    command
        .add_option("--tracefile-count", options.tracefile_count,
                    "And keep only this many files of each stream: the oldest is removed")
        ->check(CLI::Range(0, 1'000'000'000))
        ->type_name("N");
    add_limit_options(command, options.limits);
    command.add_flag("--flight-recorder", options.is_flight_recorder,
                     "Keep the last events in the rings alone, and store them in snapshots: when the program asks for "
                     "one, at SIGUSR2, and when it ends or crashes. --max-size then limits each of them");
    add_list(command, "--snapshot-on", options.snapshot_on,
             "With --flight-recorder: store a snapshot when an event of this name happens")
        ->type_name("GLOB");
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
    add_storage_options(command, options);
    add_list(
        command, "--context", options.contexts,
        fmt::format("What each event carries (default: vpid,vtid,procname): none, $app.PROVIDER:NAME, or some of\n{}",
                    session::all_context_names()))
        ->delimiter(',')
        ->type_name("LIST");
    add_list(command, "--preload", options.preload, "Trace a program that has no tracepoints: libc, pthread, dl")
        ->delimiter(',')
        ->check(CLI::IsMember(preload_names()))
        ->type_name("LIST");
    command
        .add_option(
            "--shm-path", options.shm_path,
            "Keep the rings in files below this directory: if everything crashes, leat recover makes a trace of "
            "what they hold")
        ->type_name("DIR");
    command.add_option("--summary", options.summary, "Write the closing figures as JSON")->type_name("FILE");
    command.add_option("PROGRAM", options.command, "The program and its arguments")->required();
}

// The program and its arguments, which are the last words. CLI11 would make two of "[a,b]".
std::vector<std::string> last_words(std::size_t count) {
    const auto words = arguments().last(count);
    return {words.begin(), words.end()};
}

}  // namespace

void add_record_command(CLI::App& app, int& exit_status) {
    auto options = std::make_shared<RecordOptions>();
    CLI::App* command = app.add_subcommand("record", "trace a program from start to end");
    command->footer(kRecordFooter);
    add_options(*command, *options);
    const CLI::Option* const program = command->get_option("PROGRAM");
    command->positionals_at_end();  // what follows the program is its own
    command->callback([command, program, options, &exit_status] {
        const auto count = std::ranges::count(command->parse_order(), program);
        options->command = last_words(static_cast<std::size_t>(count));
        const ProcessEnd end = run(*options);
        if (end.signal == SIGINT && !is_ignored(SIGINT)) end_by_signal(SIGINT);
        exit_status = end.exit_status;
    });
}

}  // namespace leat::cli
