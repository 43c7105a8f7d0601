#include <CLI/CLI.hpp>

#include "cli/command.hpp"

namespace leat::cli {

void add_view_command(CLI::App& app, int& exit_status) {
    CLI::App* command = app.add_subcommand("view", "print the events of a trace, oldest first");
    command->callback([&exit_status] { exit_status = kExitFailed; });
}

}  // namespace leat::cli
