// Verbs for event rules: enable-event, disable-event.
#include "cli/command.hpp"
#include "cli/steer/comma_list.hpp"
#include "cli/steer/session_text.hpp"
#include "cli/steer/verb.hpp"

namespace leat::cli {
namespace {

constexpr char kEventFooter[] =
    "A pattern is the name of an event; * stands for any text, and \\* for itself. Commas separate patterns; \\, is "
    "one.\n"
    "Without -c, the rule goes to the only channel, or to channel0, which is made if need be.\n"
    "Examples:\n"
    "  leat enable-event 'nginx:*,db:*' --loglevel=INFO\n"
    "  leat enable-event 'nginx:*' -x 'nginx:debug*' -c requests\n"
    "  leat enable-event --all";

constexpr char kAnyEvent[] = "*";

struct EventOptions : VerbOptions {
    std::vector<std::string> patterns{};
    bool is_all = false;
    std::optional<std::string> channel{};
    std::optional<std::string> log_level{};
    std::optional<std::string> log_level_only{};
    std::vector<std::string> exclusions{};
    std::optional<std::string> on_conflict{};
};

Outcome<std::vector<std::string>> names_in(const std::vector<std::string>& lists) {
    std::vector<std::string> names = split_at_commas(lists);
    if (std::ranges::find(names, "") != names.end())
        return usage("the name of an event is empty: is there a comma too many?");
    return names;
}

// The request, without a pattern.
Outcome<Json> event_request(const char* verb, const EventOptions& options) {
    Json request = request_of(verb, options.session);
    if (options.channel) request["channel"] = *options.channel;
    if (options.log_level) request["loglevel"] = *options.log_level;
    if (options.log_level_only) request["loglevel_only"] = *options.log_level_only;
    if (!options.exclusions.empty()) request["exclude"] = LEAT_TRY(names_in(options.exclusions));
    if (options.on_conflict) request["on_conflict"] = *options.on_conflict;
    return request;
}

Outcome<std::vector<std::string>> patterns_of(const EventOptions& options) {
    if (options.is_all == !options.patterns.empty()) return usage("name events, or give --all");
    if (options.is_all) return std::vector<std::string>{kAnyEvent};
    return names_in(options.patterns);
}

// What one answer says, without what concerns all patterns.
Json event_result(const std::string& pattern, const Json& answer) {
    Json event{{"pattern", pattern}};
    for (const auto& [key, value] : answer.items())
        if (key != "ok" && key != "session" && key != "warnings") event[key] = value;
    return event;
}

// "channel" of an answer, or "channels", for people.
std::string channels_in(const Json& answer) {
    const auto channels = answer.find("channels");
    if (channels == answer.end()) return fmt::format("channel {}", quoted_member(answer, "channel"));
    return fmt::format("channel{} {}", channels->size() == 1 ? "" : "s", join(*channels));
}

void warn_of_conflicts(const Json& answer, Steering& steering) {
    const auto conflicts = answer.find("conflicts");
    if (conflicts == answer.end()) return;
    for (const Json& conflict : *conflicts) steering.warn(conflict.at("text").get<std::string>());
}

// One request for each pattern, up to the first that fails.
Outcome<void> ask_for_each(Json request, const EventOptions& options, const char* done, Steering& steering) {
    const std::vector<std::string> patterns = LEAT_TRY(patterns_of(options));
    Json& result = steering.result();
    result["events"] = Json::array();
    for (const std::string& pattern : patterns) {
        request["pattern"] = pattern;
        const Json answer = LEAT_TRY(steering.ask(request));
        result["session"] = answer.at("session");
        result["events"].push_back(event_result(pattern, answer));
        warn_of_conflicts(answer, steering);
        steering.say(fmt::format("{} {}{} in {} of session {}", quoted(pattern),
                                 is_done_already(answer) ? "is already " : "", done, channels_in(answer),
                                 quoted_member(answer, "session")));
    }
    return {};
}

Outcome<void> enable_event(const EventOptions& options, Steering& steering) {
    return ask_for_each(LEAT_TRY(event_request("enable-event", options)), options, "enabled", steering);
}

Outcome<void> disable_event(const EventOptions& options, Steering& steering) {
    return ask_for_each(LEAT_TRY(event_request("disable-event", options)), options, "disabled", steering);
}

void add_pattern_options(CLI::App& command, EventOptions& options) {
    add_texts(command, "GLOB", options.patterns, "names of events")->type_name("");
    command.add_flag("-a,--all", options.is_all, "All events, as '*'");
    add_session_option(command, options);
    add_text(command, "-c,--channel", options.channel, "The channel")->type_name("NAME");
    accept_userspace(command);
}

}  // namespace

void add_event_verbs(CLI::App& app, int& exit_status) {
    const auto enable = add_verb(app, exit_status, "enable-event", "record the events of these names", enable_event);
    add_pattern_options(enable.command, enable.options);
    auto* const at_least = add_text(enable.command, "-l,--loglevel", enable.options.log_level,
                                    "Only events as severe as this: EMERG ... DEBUG, or 0-14");
    add_text(enable.command, "--loglevel-only", enable.options.log_level_only, "Only events of this level")
        ->excludes(at_least)
        ->type_name("LEVEL");
    at_least->type_name("LEVEL");
    add_texts(enable.command, "-x,--exclude", enable.options.exclusions, "Do not record events of this name")
        ->type_name("GLOB");
    add_text(enable.command, "--on-conflict", enable.options.on_conflict,
             "An event that another program describes differently: refuse it, or record it under an id of its own")
        ->check(CLI::IsMember({"refuse", "version"}))
        ->type_name("WHAT");
    enable.command.footer(kEventFooter);
    const auto disable =
        add_verb(app, exit_status, "disable-event", "switch off the rules with exactly these patterns", disable_event);
    add_pattern_options(disable.command, disable.options);
}

}  // namespace leat::cli
