// `leat`: one program, and one file for each command.
#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>

#include "cli/command.hpp"
#include "cli/standard_descriptors.hpp"

namespace leat::cli {
namespace {

constexpr std::array<AddCommand, 2> kCommands{
    add_record_command,
    add_view_command,
};

constexpr char kFooter[] =
    "Examples:\n"
    "  leat record --preload libc -- python3 -c 'import json'\n"
    "  leat view\n"
    "leat COMMAND --help has more.";

int run(int argc, char** argv) {
    CLI::App app{"Leat: trace programs on Linux, and read what they did.", "leat"};
    app.set_version_flag("--version", "leat " LEAT_VERSION);
    app.footer(kFooter);
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
    }
    return exit_status;
}

}  // namespace

void print_error(const Error& error) { fmt::print(stderr, "leat: {}\n", error.message); }

}  // namespace leat::cli

// NOLINTNEXTLINE(bugprone-exception-escape): nobody could print what print itself throws
int main(int argc, char** argv) {
    leat::cli::occupy_standard_descriptors();
    try {
        return leat::cli::run(argc, argv);
    } catch (const std::exception& error) {
        fmt::print(stderr, "leat: {}\n", error.what());
        return leat::cli::kExitFailed;
    }
}
