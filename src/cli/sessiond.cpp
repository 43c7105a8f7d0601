// leat-sessiond: traces the programs of a host as people steer it.
#include <grp.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "base/descriptors.hpp"
#include "base/log.hpp"
#include "base/stranger_socket.hpp"
#include "cli/background.hpp"
#include "cli/command.hpp"
#include "cli/empty_values.hpp"
#include "cli/help.hpp"
#include "cli/ignored_signal.hpp"
#include "cli/metrics_option.hpp"
#include "cli/pid_file.hpp"
#include "cli/size_option.hpp"
#include "cli/standard_descriptors.hpp"
#include "cli/tell.hpp"
#include "cli/write_signals.hpp"
#include "sessiond/daemon.hpp"

namespace leat::cli {
namespace {

constexpr char kExamples[] =
    "Examples:\n"
    "  leat-sessiond --background                serve this user; root: all users\n"
    "  leat create web && leat enable-event 'web:*' && leat start\n"
    "                                            what to do then; leat create starts a daemon if there is none\n"
    "  leat-sessiond --group=tracing --verbose   let members of a group steer root's daemon";

struct Options {
    bool is_background = false;
    std::string group = "tracing";
    bool is_group_given = false;
    std::string metrics;
    std::uint64_t max_memory = 0;
    std::string pid_file;
    std::string log_file;
    std::string log_format = "text";
    int verbosity = 0;
};

void add_options(CLI::App& app, Options& options) {
    app.add_flag("-b,--background", options.is_background, "return when the daemon is ready, which goes on");
    app.add_option("--group", options.group, "members of this group may steer root's daemon (default: tracing)")
        ->type_name("NAME");
    add_metrics_option(app, options.metrics);
    app.add_option("--max-memory", options.max_memory,
                   "bytes that the rings of all sessions may take together, or with K, M, G, T (default: no limit)")
        ->transform(as_size())
        ->type_name("SIZE");
    app.add_option("--pid-file", options.pid_file, "write our process id there")->type_name("PATH");
    app.add_option(
           "--log-file", options.log_file,
           "append the log there; SIGHUP opens it anew (default: stderr; with --background, sessiond.log in the "
           "runtime directory)")
        ->type_name("PATH");
    app.add_option("--log-format", options.log_format, "text or json")
        ->check(CLI::IsMember({"text", "json"}))
        ->option_text("FORMAT:{text,json}=text");
    app.add_flag("-v,--verbose", options.verbosity, "log what clients do; twice: programs, too");
}

Result<void> open_log(const Options& options) {
    Log& log = the_log();
    log.set_program("leat-sessiond");
    log.set_format(options.log_format == "json" ? Log::Format::kJson : Log::Format::kText);
    if (options.verbosity > 0) log.set_level(options.verbosity == 1 ? Log::Level::kInfo : Log::Level::kDebug);
    if (!options.log_file.empty()) return log.open(std::filesystem::absolute(options.log_file));
    return {};
}

// In a user namespace, groups that the host's files name may have no id.
bool has_id_here(gid_t group) {
    std::ifstream map("/proc/self/gid_map");
    if (!map.is_open()) return true;
    for (std::uint64_t first = 0, outside = 0, count = 0; map >> first >> outside >> count;)
        if (group >= first && group - first < count) return true;
    return false;
}

// A group of the default name need not exist.
Result<std::optional<gid_t>> find_group(const Options& options) {
    if (::geteuid() != 0) return std::nullopt;
    const group* const found = ::getgrnam(options.group.c_str());
    if (found != nullptr && (options.is_group_given || has_id_here(found->gr_gid))) return found->gr_gid;
    if (options.is_group_given) return refused("there is no group {}", options.group);
    return std::nullopt;
}

// SIGTERM, SIGINT, SIGHUP and SIGUSR2 as a descriptor; blocked in all threads that are started from here on.
Result<UniqueFd> watch_signals(const Options& options) {
    sigset_t signals;
    ::sigemptyset(&signals);
    for (const int signal : {SIGTERM, SIGINT, SIGUSR2}) ::sigaddset(&signals, signal);
    const bool has_log_file = options.is_background || !options.log_file.empty();
    if (has_log_file || !is_ignored(SIGHUP)) ::sigaddset(&signals, SIGHUP);
    ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    UniqueFd fd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!fd.is_open()) return io_error("cannot watch signals");
    return fd;
}

// What systemd waits for with Type=notify: [man-pages], sd_notify(3).
void notify_service_manager(std::string_view state) {
    const char* const path = std::getenv("NOTIFY_SOCKET");
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path == nullptr || (*path != '/' && *path != '@') || std::strlen(path) >= sizeof address.sun_path) return;
    std::memcpy(address.sun_path, path, std::strlen(path));
    if (*path == '@') address.sun_path[0] = '\0';
    const UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + std::strlen(path));
    // NOLINTNEXTLINE(*-reinterpret-cast)
    const auto* const to = reinterpret_cast<const sockaddr*>(&address);
    (void)::sendto(socket.get(), state.data(), state.size(), MSG_NOSIGNAL, to, size);
}

// Set for a daemon that takes the place of another one in its process: what that hands over.
constexpr char kGoesOnVariable[] = "LEAT_SESSIOND_GOES_ON";

// Where this program is; an upgrade puts another one there.
std::string program_path() {
    std::error_code error;
    const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
    return error ? "leat-sessiond" : path.string();
}

// In the background it keeps no file system busy; unless the next daemon in its process has to find files from where
// this one was started.
void leave_directory(const Options& options) {
    const auto is_relative = [](const std::string& path) { return !path.empty() && !path.starts_with('/'); };
    if (options.is_background && !is_relative(options.pid_file) && !is_relative(options.log_file)) (void)!::chdir("/");
}

// `from_before`: what the daemon before hands over, as text. `to_next`: what this one does, if there is to be a next.
Result<sessiond::Daemon::End> serve(const Options& options, std::optional<Background>& background,
                                    const std::optional<std::string>& from_before, sessiond::Handover& to_next) {
    const UniqueFd signals = LEAT_TRY(watch_signals(options));
    const sessiond::Places places = LEAT_TRY(sessiond::Places::find());
    const auto group = LEAT_TRY(find_group(options));
    auto daemon = LEAT_TRY(sessiond::Daemon::create(
        {.places = places, .group = group, .metrics = options.metrics, .max_memory = options.max_memory},
        sessiond::Handover::find(from_before.value_or(""), places.directory)));
    // There is no stderr.
    if (options.is_background && options.log_file.empty()) LEAT_TRY(the_log().open(places.directory / "sessiond.log"));
    LEAT_TRY(daemon->begin());
    std::optional<PidFile> pid_file;
    if (!options.pid_file.empty()) pid_file = LEAT_TRY(PidFile::create(std::filesystem::absolute(options.pid_file)));
    const std::string line = fmt::format("ready in {}, for {}", places.directory.string(),
                                         places.only ? fmt::format("user {}", *places.only) : std::string("all users"));
    log_info("leat-sessiond {}: {}{}", LEAT_VERSION, line,
             options.metrics.empty() ? "" : "; metrics on " + daemon->metrics_endpoint());
    if (background) {
        background->report_ready("");
        background.reset();
    }
    notify_service_manager("READY=1");
    const auto end = daemon->run(signals.get());
    if (end == sessiond::Daemon::End::kToRestart) {
        log_info("signal: starting again, sessions go on");
        to_next = daemon->hand_over();
        return end;
    }
    notify_service_manager("STOPPING=1");
    log_info("all sessions are stored, ending");
    return end;
}

Result<sessiond::Daemon::End> start(const Options& options, std::optional<Background>& background,
                                    sessiond::Handover& to_next) {
    LEAT_TRY(open_log(options));
    // Each traced program costs us a descriptor.
    (void)raise_descriptor_limit();
    StrangerSocket::reserve_low_number();
    const char* const variable = std::getenv(kGoesOnVariable);
    const auto from_before = variable == nullptr ? std::nullopt : std::optional<std::string>(variable);
    ::unsetenv(kGoesOnVariable);
    if (options.is_background && !from_before) background = LEAT_TRY(Background::enter("leat-sessiond", true));
    leave_directory(options);
    return serve(options, background, from_before, to_next);
}

int run(int argc, char** argv) {
    Options options;
    CLI::App app{"traces the programs of this host, as leat create, enable-event, start, ... say", "leat-sessiond"};
    app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    app.set_version_flag("-V,--version", std::string("leat-sessiond ") + LEAT_VERSION);
    add_options(app, options);
    app.footer(kExamples);
    app.parse_complete_callback([&app] { refuse_empty_values(app); });
    try {
        app.parse(with_empty_values(app, {argv, static_cast<std::size_t>(argc)}));
    } catch (const CLI::Success& success) {
        return print_help(app, success);
    } catch (const CLI::ParseError& error) {
        tell("leat-sessiond: {} (see leat-sessiond --help)", readable_message(error.what()));
        return kExitUsage;
    }
    options.is_group_given = app.count("--group") != 0;
    const std::string path = program_path();
    std::optional<Background> background;
    sessiond::Handover to_next;
    const auto done = start(options, background, to_next);
    if (done && *done == sessiond::Daemon::End::kToRestart) {
        ::setenv(kGoesOnVariable, to_next.keep_over_exec().c_str(), 1);
        ::execv(path.c_str(), argv);
        log_error("cannot start {}: {}: its sessions wait for the next daemon", path, std::strerror(errno));
        return kExitFailed;
    }
    if (done) return kExitOk;
    // One that takes the place of another in the background has nobody else to tell.
    if (the_log().is_file()) log_error("cannot start: {}", done.error().message);
    const std::string line = "leat-sessiond: " + readable_message(done.error().message);
    if (background)
        background->report_failure(line);
    else
        tell("{}", line);
    return kExitFailed;
}

}  // namespace
}  // namespace leat::cli

// NOLINTNEXTLINE(bugprone-exception-escape): nobody could print what print itself throws
int main(int argc, char** argv) {
    leat::cli::occupy_standard_descriptors();
    leat::cli::let_writes_fail();
    try {
        return leat::cli::run(argc, argv);
    } catch (const std::exception& error) {
        leat::cli::tell("leat-sessiond: {}", leat::cli::readable_message(error.what()));
        return leat::cli::kExitFailed;
    }
}
