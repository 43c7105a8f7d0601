// `leat-relayd`: takes traces from producers over the network, stores them, and shows them to viewers.
#include <pwd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <asio/signal_set.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/descriptors.hpp"
#include "base/log.hpp"
#include "cli/background.hpp"
#include "cli/command.hpp"
#include "cli/empty_values.hpp"
#include "cli/help.hpp"
#include "cli/listen_url.hpp"
#include "cli/metrics_option.hpp"
#include "cli/pid_file.hpp"
#include "cli/standard_descriptors.hpp"
#include "cli/tell.hpp"
#include "cli/write_signals.hpp"
#include "relay/server.hpp"

namespace leat::cli {
namespace {

constexpr char kExamples[] =
    "Examples:\n"
    "  leat-relayd                                  this host only; traces in ~/leat-traces\n"
    "  leat-relayd --bind 0.0.0.0 -o /traces        producers on all hosts, viewers on this one\n"
    "  leat-relayd --bind 0.0.0.0 -L tcp://0.0.0.0:5344   viewers on all hosts, too\n"
    "  leat-relayd --ports 6342:6343:6344           other ports than 5342, 5343 and 5344\n"
    "  leat-relayd -d --log-file relay.log --pid-file relay.pid -v   in the background\n"
    "Then:\n"
    "  leat record --live=net://THIS-HOST -- ./server\n"
    "  leat view net://THIS-HOST\n"
    "There is no authentication: let in only networks that you trust.";

struct Options {
    relay::Server::Parameters server{};
    std::string control_url{};
    std::string data_url{};
    std::string live_url{};
    bool is_daemon = false;      // its console is closed
    bool is_background = false;  // its console is kept
    std::string working_directory{};
    std::string pid_file{};
    std::string log_file{};
    std::string log_format = "text";
    int verbosity = 0;

    [[nodiscard]] bool leaves_terminal() const { return is_daemon || is_background; }
};

std::string default_output() {
    // NOLINTBEGIN(concurrency-mt-unsafe): one thread
    const auto is_usable = [](const char* path) { return path != nullptr && path[0] == '/'; };
    const char* home = std::getenv("HOME");
    const passwd* const user = is_usable(home) ? nullptr : ::getpwuid(::geteuid());
    // NOLINTEND(concurrency-mt-unsafe)
    if (user != nullptr) home = user->pw_dir;
    return std::string(is_usable(home) ? home : ".") + "/leat-traces";
}

// "CONTROL:DATA:LIVE"
std::string apply_ports(const std::string& text, relay::Server::Parameters& parameters) {
    const std::vector<std::string> parts = CLI::detail::split(text, ':');
    std::vector<std::uint16_t> ports;
    for (const std::string& part : parts) {
        std::uint16_t port = 0;
        if (!CLI::detail::lexical_cast(part, port)) break;
        ports.push_back(port);
    }
    if (parts.size() != 3 || ports.size() != 3) return "three ports are needed: CONTROL:DATA:LIVE";
    parameters.control_port = ports[0];
    parameters.data_port = ports[1];
    parameters.live_port = ports[2];
    return {};
}

void add_network_options(CLI::App& app, Options& options) {
    relay::Server::Parameters& server = options.server;
    app.add_option("--bind", server.address,
                   "IP address for producers; 0.0.0.0 or :: for all. Viewers are served on this host only, see -L")
        ->check([](const std::string& text) {
            asio::error_code error;
            asio::ip::make_address(text, error);
            return error ? fmt::format("\"{}\" is no IP address", text) : std::string();
        })
        ->capture_default_str();
    app.add_option_function<std::string>(
           "--ports", [](const std::string&) {}, "ports of control, data and live connections; 0: a free one")
        ->type_name("CONTROL:DATA:LIVE")
        ->check([&](const std::string& text) { return apply_ports(text, server); })
        ->default_str("5342:5343:5344");
    const auto add_url = [&](const char* names, std::string& url, const char* text) {
        app.add_option(names, url, text)->type_name("tcp://ADDRESS:PORT")->check([](const std::string& given) {
            const auto parsed = parse_listen_url(given);
            return parsed ? std::string() : parsed.error().message;
        });
    };
    add_url("-C,--control-port", options.control_url, "where producers connect; wins over --bind and --ports");
    add_url("-D,--data-port", options.data_url, "where they send data, also as datagrams");
    add_url("-L,--live-port", options.live_url, "where viewers connect");
    add_metrics_option(app, server.metrics);
    app.add_option("--max-connections", server.max_connections,
                   "at most this many; default: as the limit of open files allows")
        ->check(CLI::Range(relay::Admission::kFewestConnections, std::size_t{1} << 20))
        ->type_name("N");
    app.add_option_function<unsigned>(
           "--handshake-timeout",
           [&server](unsigned seconds) { server.stranger_patience = std::chrono::seconds(seconds); },
           "time in which a new connection has to say something useful")
        ->check(CLI::Range(1U, 86400U))
        ->type_name("SECONDS")
        ->default_str("30");
}

void add_output_options(CLI::App& app, Options& options) {
    relay::Server::Parameters& server = options.server;
    app.add_option("-o,--output", server.output, "directory for traces")->type_name("DIR")->capture_default_str();
    auto* const by_host = app.add_flag_callback(
        "-p,--group-output-by-host", [&] { server.grouping = relay::Grouping::kByHost; },
        "store sessions in HOST/SESSION-DATE (default)");
    app.add_flag_callback(
           "-s,--group-output-by-session", [&] { server.grouping = relay::Grouping::kBySession; },
           "store sessions in SESSION/HOST-DATE")
        ->excludes(by_host);
    app.add_flag_callback(
        "-x,--disallow-clear", [&] { server.is_clear_allowed = false; }, "producers cannot clear their sessions");
    app.add_flag("--sync", server.sync, "what is acknowledged has reached the disk");
}

void add_process_options(CLI::App& app, Options& options) {
    auto* const daemon =
        app.add_flag("-d,--daemonize", options.is_daemon, "go to the background when the ports are open");
    app.add_flag("-b,--background", options.is_background, "the same, but keep the console")->excludes(daemon);
    app.add_option("-w,--working-directory", options.working_directory, "work in this directory")->type_name("DIR");
    app.add_option("--pid-file", options.pid_file, "keep the process id in this file")->type_name("PATH");
    app.add_option("--log-file", options.log_file, "log to this file, not to standard error; SIGHUP opens it anew")
        ->type_name("PATH");
    app.add_option("--log-format", options.log_format, "text or json")
        ->check(CLI::IsMember({"text", "json"}))
        ->option_text("FORMAT:{text,json}=text");
    app.add_flag("-v,--verbose", options.verbosity, "log sessions and viewers; twice: every command");
}

Result<void> apply_urls(Options& options) {
    relay::Server::Parameters& server = options.server;
    server.live_address = local_address_for(server.address);
    const auto apply = [](const std::string& url, std::string& address, std::uint16_t& port) -> Result<void> {
        if (url.empty()) return {};
        const ListenUrl listen = LEAT_TRY(parse_listen_url(url));
        address = LEAT_TRY(address_of(listen.host));
        port = listen.port;
        return {};
    };
    LEAT_TRY(apply(options.control_url, server.control_address, server.control_port));
    LEAT_TRY(apply(options.data_url, server.data_address, server.data_port));
    return apply(options.live_url, server.live_address, server.live_port);
}

// Paths are relative to where we were started: make them absolute first. A background process goes to the root, where
// it keeps no file system busy.
Result<void> go_to_working_directory(Options& options) {
    for (std::string* const path : {&options.server.output, &options.pid_file, &options.log_file})
        if (!path->empty()) *path = std::filesystem::absolute(*path).lexically_normal().string();
    if (options.working_directory.empty() && options.leaves_terminal()) options.working_directory = "/";
    if (options.working_directory.empty()) return {};
    if (::chdir(options.working_directory.c_str()) == 0) return {};
    return io_error("cannot go to " + options.working_directory + ", as --working-directory says");
}

void raise_descriptor_limit(std::size_t max_connections) {
    const std::uint64_t limit = leat::raise_descriptor_limit();
    if (max_connections > relay::Server::default_max_connections(limit))
        log_warning("{} connections may need more than the {} files that may be open: raise the limit (ulimit -Hn)",
                    max_connections, limit);
}

Result<void> open_log(const Options& options) {
    Log& log = the_log();
    log.set_program("leat-relayd");
    log.set_format(options.log_format == "json" ? Log::Format::kJson : Log::Format::kText);
    if (options.verbosity > 0) log.set_level(options.verbosity == 1 ? Log::Level::kInfo : Log::Level::kDebug);
    if (options.log_file.empty()) return {};
    return log.open(options.log_file);
}

std::string start_line(const relay::Server& server, const relay::Server::Parameters& parameters) {
    const auto address_in = [](const std::string& endpoint) { return endpoint.substr(0, endpoint.rfind(':')); };
    const std::string control = address_in(server.control_endpoint());
    const std::string data = address_in(server.data_endpoint());
    const std::string live = address_in(server.live_endpoint());
    const auto on = [&](const std::string& address) { return address == control ? "" : " on " + address; };
    const std::string metrics = server.metrics_endpoint();
    return fmt::format("listening on {}: control {}, data {}{}, live {}{}; traces in {}{}", control,
                       server.control_port(), server.data_port(), on(data), server.live_port(), on(live),
                       parameters.output, metrics.empty() ? "" : "; metrics on " + metrics);
}

// SIGHUP opens the log file anew. Without one, it means that the terminal has gone, and ends the relay.
void handle_signals(asio::signal_set& signals, relay::Server& server) {
    signals.async_wait([&](const asio::error_code& error, int signal) {
        if (error) return;
        if (signal != SIGHUP || !the_log().is_file()) {
            log_info("signal {}: ending", signal);
            server.stop();
            return;
        }
        if (const auto reopened = the_log().reopen(); !reopened)
            log_error("{}: the old file is kept", reopened.error().message);
        handle_signals(signals, server);
    });
}

Result<void> serve(const Options& options, std::optional<Background>& background) {
    const auto server = LEAT_TRY(relay::Server::create(options.server));
    std::optional<PidFile> pid_file;
    if (!options.pid_file.empty()) pid_file = LEAT_TRY(PidFile::create(options.pid_file));
    asio::signal_set signals(server->context(), SIGINT, SIGTERM, SIGHUP);
    handle_signals(signals, *server);
    const std::string line = start_line(*server, options.server);
    if (the_log().is_file()) the_log().write(Log::Level::kInfo, fmt::format("leat-relayd {}: {}", LEAT_VERSION, line));
    if (background) {
        background->report_ready(line);
        background.reset();
    } else {
        fmt::print("{}\n", line);
        std::fflush(stdout);
    }
    server->run();
    return {};
}

Result<void> start(Options& options, std::optional<Background>& background) {
    LEAT_TRY(apply_urls(options));
    LEAT_TRY(go_to_working_directory(options));
    LEAT_TRY(open_log(options));
    raise_descriptor_limit(options.server.max_connections);
    if (options.leaves_terminal()) background = LEAT_TRY(Background::enter("leat-relayd", options.is_daemon));
    return serve(options, background);
}

int run(int argc, char** argv) {
    Options options{.server = {.output = default_output()}};
    CLI::App app{"takes traces over the network, stores them, and shows them live", "leat-relayd"};
    app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    app.set_version_flag("-V,--version", std::string("leat-relayd ") + LEAT_VERSION);
    add_output_options(app, options);
    add_network_options(app, options);
    add_process_options(app, options);
    app.footer(kExamples);
    app.parse_complete_callback([&app] { refuse_empty_values(app); });
    try {
        app.parse(with_empty_values(app, {argv, static_cast<std::size_t>(argc)}));
    } catch (const CLI::Success& success) {
        return print_help(app, success);
    } catch (const CLI::ParseError& error) {
        tell("leat-relayd: {} (see leat-relayd --help)", readable_message(error.what()));
        return kExitUsage;
    }
    std::optional<Background> background;
    const auto done = start(options, background);
    if (done) return kExitOk;
    const std::string line = "leat-relayd: " + readable_message(done.error().message);
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
        leat::cli::tell("leat-relayd: {}", leat::cli::readable_message(error.what()));
        return leat::cli::kExitFailed;
    }
}
