#include "cli/steer/verb.hpp"

#include "cli/repeated_option.hpp"

namespace leat::cli {

CLI::App& add_verb_command(CLI::App& app, const char* name, const char* description, VerbOptions& options) {
    CLI::App* const command = app.add_subcommand(name, description)->group(kVerbGroup);
    command->add_option("--format", options.format, "Format of what is printed: text, or json, one object")
        ->check(CLI::IsMember({"text", "json"}));
    command->footer("");  // not that of leat
    return *command;
}

void add_session_option(CLI::App& command, VerbOptions& options) {
    add_text(command, "-s,--session", options.session, "The session (default: the current one)")->type_name("NAME");
}

void accept_userspace(CLI::App& command) { command.add_flag("-u,--userspace")->group(""); }

void add_session_argument(CLI::App& command, VerbOptions& options, const char* description) {
    add_text(command, "NAME", options.session, description)->type_name("");
}

CLI::Option* add_text(CLI::App& command, const char* names, std::optional<std::string>& text, const char* description) {
    return command.add_option_function<std::string>(
        names, [&text](const std::string& given) { text = given; }, description);
}

CLI::Option* add_texts(CLI::App& command, const char* names, std::vector<std::string>& texts, const char* description) {
    CLI::Option* const option = command.add_option(names, texts, description);
    return option->get_positional() ? option : repeated(option);
}

}  // namespace leat::cli
