// `leat-relayd`: takes traces from producers over the network, stores them, and shows them to viewers.
#include <CLI/CLI.hpp>
#include <asio/signal_set.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "relay/server.hpp"

namespace leat::cli {
namespace {

constexpr char kExamples[] =
    "Examples:\n"
    "  leat-relayd                              this host only; traces in ~/leat-traces\n"
    "  leat-relayd --bind 0.0.0.0 -o /traces    all hosts that can reach this one\n"
    "  leat-relayd --ports 6342:6343:6344       other ports than 5342, 5343 and 5344\n"
    "Then:\n"
    "  leat record --live=net://THIS-HOST -- ./server\n"
    "  leat view net://THIS-HOST";

std::string default_output() {
    const char* const home = std::getenv("HOME");
    return std::string(home != nullptr ? home : ".") + "/leat-traces";
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

int serve(const relay::Server::Parameters& parameters) {
    const auto server = relay::Server::create(parameters);
    if (!server) {
        fmt::print(stderr, "leat-relayd: {}\n", server.error().message);
        return kExitFailed;
    }
    asio::signal_set signals((*server)->context(), SIGINT, SIGTERM);
    signals.async_wait([&](const asio::error_code& error, int) {
        if (!error) (*server)->stop();
    });
    fmt::print("listening on {}: control {}, data {}, live {}; traces in {}\n", parameters.address,
               (*server)->control_port(), (*server)->data_port(), (*server)->live_port(), parameters.output);
    std::fflush(stdout);
    (*server)->run();
    return kExitOk;
}

int run(int argc, char** argv) {
    relay::Server::Parameters parameters{.output = default_output()};
    CLI::App app{"takes traces over the network, stores them, and shows them live", "leat-relayd"};
    app.set_version_flag("--version", std::string("leat-relayd ") + LEAT_VERSION);
    app.add_option("-o,--output", parameters.output, "directory for traces")->capture_default_str();
    app.add_option("--bind", parameters.address, "address to listen on; 0.0.0.0 or :: for all")->capture_default_str();
    app.add_option_function<std::string>(
           "--ports", [&](const std::string&) {}, "ports of control, data and live connections; 0: a free one")
        ->type_name("CONTROL:DATA:LIVE")
        ->check([&](const std::string& text) { return apply_ports(text, parameters); })
        ->default_str("5342:5343:5344");
    app.footer(kExamples);
    try {
        app.parse(argc, argv);
    } catch (const CLI::Success& success) {
        return app.exit(success);
    } catch (const CLI::ParseError& error) {
        fmt::print(stderr, "leat-relayd: {} (see leat-relayd --help)\n", error.what());
        return kExitUsage;
    }
    return serve(parameters);
}

}  // namespace
}  // namespace leat::cli

// NOLINTNEXTLINE(bugprone-exception-escape): what print itself throws, nobody could print
int main(int argc, char** argv) {
    // A closed connection is an answer of send(), not a signal.
    std::signal(SIGPIPE, SIG_IGN);
    try {
        return leat::cli::run(argc, argv);
    } catch (const std::exception& error) {
        fmt::print(stderr, "leat-relayd: {}\n", error.what());
        return leat::cli::kExitFailed;
    }
}
