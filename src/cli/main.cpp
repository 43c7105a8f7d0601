// `leat`: one program, one command a file.
#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>

#include "cli/command.hpp"

namespace leat::cli {
namespace {

constexpr std::array<AddCommand, 2> kCommands{
    add_record_command,
    add_view_command,
};

}  // namespace

void print_error(const Error& error) { fmt::print(stderr, "leat: {}\n", error.message); }

}  // namespace leat::cli

int main(int argc, char** argv) {
    using namespace leat::cli;
    CLI::App app{"Leat: trace programs on Linux, and read what they did.", "leat"};
    app.require_subcommand(1);
    int exit_status = kExitOk;
    for (const AddCommand add_command : kCommands) add_command(app, exit_status);
    try {
        app.parse(argc, argv);
    } catch (const CLI::Success& success) {
        return app.exit(success);  // --help, --version
    } catch (const CLI::ParseError& error) {
        fmt::print(stderr, "leat: {} (see leat --help)\n", error.what());
        return kExitUsage;
    } catch (const std::exception& error) {
        fmt::print(stderr, "leat: {}\n", error.what());
        return kExitFailed;
    }
    return exit_status;
}
