// `leat`: one program, and one file for each command.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.hpp"
#include "cli/empty_values.hpp"
#include "cli/help.hpp"
#include "cli/json_text.hpp"
#include "cli/standard_descriptors.hpp"
#include "cli/steer/verb.hpp"
#include "cli/tell.hpp"

namespace leat::cli {
namespace {

struct CommandGroup {
    AddCommand add;
    std::vector<std::string_view> names;
};

// In the order of `leat --help`.
std::vector<CommandGroup> command_groups() {
    return {
        {add_record_command, {"record"}},
        {add_view_command, {"view"}},
        {add_stats_command, {"stats"}},
        {add_export_command, {"export"}},
        {add_check_commands, {"check", "repair"}},
        {add_recover_command, {"recover"}},
        {add_create_verb, {"create"}},
        {add_snapshot_verb, {"snapshot"}},
        {add_session_verbs, {"start", "stop", "rotate", "destroy", "clear", "set-session", "regenerate"}},
        {add_channel_verbs, {"enable-channel", "disable-channel", "add-context"}},
        {add_event_verbs, {"enable-event", "disable-event"}},
        {add_tracking_verbs, {"track", "untrack"}},
        {add_listing_verbs, {"list", "status"}},
        {add_definition_verbs, {"save", "load"}},
    };
}

// Options take time: more than most commands need for what they do. So there are those of the command that is given
// alone, or of all.
void add_commands(CLI::App& app, int& exit_status, std::span<char* const> arguments) {
    const std::string_view word = arguments.size() < 2 ? "" : arguments[1];
    const auto groups = command_groups();
    const auto given = std::ranges::find_if(
        groups, [&](const CommandGroup& group) { return std::ranges::find(group.names, word) != group.names.end(); });
    if (given != groups.end()) return given->add(app, exit_status);
    for (const CommandGroup& group : groups) group.add(app, exit_status);
}

constexpr char kFooter[] =
    "Examples:\n"
    "  leat record --preload libc -- python3 -c 'import json'\n"
    "  leat view\n"
    "  leat create web && leat enable-event 'nginx:*' && leat start\n"
    "leat COMMAND --help has more.";

// Whether errors of this command are printed for scripts, too: not of one that prints events. The options could not be
// parsed.
bool wants_json(const CLI::App& app, std::span<char* const> arguments) {
    const auto given = app.get_subcommands();
    if (given.empty()) return false;
    const CLI::App& command = *given.front();
    const bool has_format = command.get_option_no_throw("--format") != nullptr && command.get_name() != "view";
    if (command.get_group() != kVerbGroup && !has_format) return false;
    std::vector<std::string_view> words(arguments.begin(), arguments.end());
    words.erase(std::ranges::find(words, "--"), words.end());
    constexpr std::array<std::string_view, 2> kTwoWords{"--format", "json"};
    return std::ranges::find(words, "--format=json") != words.end() || !std::ranges::search(words, kTwoWords).empty();
}

// The word where a command should be, if there is none of that name.
std::optional<std::string> unknown_command(const CLI::App& app, std::span<char* const> arguments) {
    const std::string word = arguments.size() < 2 ? "" : arguments[1];
    const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
    const bool is_known = std::ranges::find(commands, word, &CLI::App::get_name) != commands.end();
    return word.empty() || word.starts_with('-') || is_known ? std::nullopt : std::optional(word);
}

// The first word that the command does not know.
std::string unknown_word(const CLI::App& command) {
    const std::vector<std::string> words = command.remaining();
    const auto option = std::ranges::find_if(
        words, [](const std::string& word) { return word.size() > 1 && word.starts_with('-') && word != "--"; });
    if (option == words.end()) return fmt::format("unexpected argument {}", quoted(words.empty() ? "" : words.front()));
    return fmt::format("there is no option {}", quoted(option->substr(0, option->find('='))));
}

std::span<char* const> all_arguments;

int run(int argc, char** argv) {
    all_arguments = {argv, static_cast<std::size_t>(argc)};
    CLI::App app{"Leat: trace programs on Linux, and read what they did.", "leat"};
    app.set_version_flag("-V,--version", "leat " LEAT_VERSION);
    app.footer(kFooter);
    app.require_subcommand(1);
    int exit_status = kExitOk;
    add_commands(app, exit_status, all_arguments);
    app.parse_complete_callback([&app] { refuse_empty_values(app); });
    try {
        app.parse(with_empty_values(app, all_arguments));
    } catch (const CLI::Success& success) {
        return print_help(app, success);
    } catch (const CLI::ParseError& error) {
        const auto given = app.get_subcommands();
        if (const auto word = unknown_command(app, all_arguments))
            return report_usage(fmt::format("there is no command {}", quoted(*word)), "",
                                wants_json(app, all_arguments));
        const bool is_of_command = !given.empty() && dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
        return report_usage(is_of_command ? unknown_word(*given.front()) : error.what(),
                            given.empty() ? "" : given.front()->get_name(), wants_json(app, all_arguments));
    }
    return exit_status;
}

}  // namespace

std::span<char* const> arguments() { return all_arguments; }

void print_error(const Error& error) { tell("leat: {}", readable_message(error.message)); }

int report_failure(const Error& error, std::string_view format) {
    if (format == "json") fmt::print("{}\n", readable_json(failure_object(kind_name(error.kind), error.message)));
    print_error(error);
    return kExitFailed;
}

}  // namespace leat::cli

// NOLINTNEXTLINE(bugprone-exception-escape): nobody could print what print itself throws
int main(int argc, char** argv) {
    leat::cli::occupy_standard_descriptors();
    try {
        return leat::cli::run(argc, argv);
    } catch (const std::exception& error) {
        leat::cli::tell("leat: {}", error.what());
        return leat::cli::kExitFailed;
    }
}
