// What all commands of `leat` share.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace CLI {
class App;
}

namespace leat::cli {

// Exit statuses are part of the interface: scripts depend on them.
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;

// One command, or a few: declares options on `app` and sets the callback that runs it. `exit_status` is what the
// program will end with; both references outlive the parse.
using AddCommand = void (*)(CLI::App& app, int& exit_status);

void add_check_commands(CLI::App& app, int& exit_status);
void add_export_command(CLI::App& app, int& exit_status);
void add_record_command(CLI::App& app, int& exit_status);
void add_recover_command(CLI::App& app, int& exit_status);
void add_stats_command(CLI::App& app, int& exit_status);
void add_view_command(CLI::App& app, int& exit_status);
// The verbs that steer the session daemon, a group each.
void add_create_verb(CLI::App& app, int& exit_status);
void add_snapshot_verb(CLI::App& app, int& exit_status);
void add_session_verbs(CLI::App& app, int& exit_status);
void add_channel_verbs(CLI::App& app, int& exit_status);
void add_event_verbs(CLI::App& app, int& exit_status);
void add_tracking_verbs(CLI::App& app, int& exit_status);
void add_listing_verbs(CLI::App& app, int& exit_status);
void add_definition_verbs(CLI::App& app, int& exit_status);

// The words that main() got, from the name of this program on.
std::span<char* const> arguments();

// Prints `leat: MESSAGE` on stderr.
void print_error(const Error& error);

// The same, and for scripts, if `format` is "json", failure_object() on stdout: of a command that has printed nothing
// there. Returns kExitFailed.
int report_failure(const Error& error, std::string_view format);

}  // namespace leat::cli
