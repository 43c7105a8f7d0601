// How verbs declare their options.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/steer/steering.hpp"

namespace leat::cli {

inline constexpr char kVerbGroup[] = "Steering the session daemon";

// What the verbs share.
struct VerbOptions {
    std::optional<std::string> session{};
    std::string format = "text";
};

template <class Options>
struct Verb {
    CLI::App& command;
    Options& options;  // the command keeps it
};

CLI::App& add_verb_command(CLI::App& app, const char* name, const char* description, VerbOptions& options);

template <class Options>
Verb<Options> add_verb(CLI::App& app, int& exit_status, const char* name, const char* description,
                       Outcome<void> (*run)(const Options&, Steering&)) {
    const auto options = std::make_shared<Options>();
    CLI::App& command = add_verb_command(app, name, description, *options);
    command.callback([options, run, &exit_status] {
        exit_status = run_verb(options->format, [&](Steering& steering) { return run(*options, steering); });
    });
    return {command, *options};
}

// -s NAME.
void add_session_option(CLI::App& command, VerbOptions& options);
// -u, which other tools want: there is one domain. Not in the help.
void accept_userspace(CLI::App& command);
// [NAME].
void add_session_argument(CLI::App& command, VerbOptions& options, const char* description);

// An option or argument of any text: an empty one is not the same as none.
CLI::Option* add_text(CLI::App& command, const char* names, std::optional<std::string>& text, const char* description);

// An option that can be repeated, one value each time; or as many arguments as there are.
CLI::Option* add_texts(CLI::App& command, const char* names, std::vector<std::string>& texts, const char* description);

}  // namespace leat::cli
