// Verbs that look: list, status.
#include "cli/command.hpp"
#include "cli/steer/session_text.hpp"
#include "cli/steer/verb.hpp"

namespace leat::cli {
namespace {

constexpr char kListFooter[] =
    "Examples:\n"
    "  leat list               all sessions\n"
    "  leat list web           its channels, rules, counts, and conflicts between programs\n"
    "  leat list --programs    programs that can be traced, and their events";

struct ListOptions : VerbOptions {
    bool has_programs = false;
};

// An answer has a newline after each line, say() adds the last one.
void say_text(Steering& steering, std::string text) {
    if (text.ends_with('\n')) text.pop_back();
    steering.say(text);
}

Outcome<void> list_programs(Steering& steering) {
    steering.result() = LEAT_TRY(steering.ask(request_of("list-programs", std::nullopt)));
    say_text(steering, text_of_programs(steering.result().at("programs")));
    return {};
}

Outcome<void> list(const ListOptions& options, Steering& steering) {
    if (options.has_programs && options.session) return usage("--programs lists the programs of all sessions");
    if (options.has_programs) return list_programs(steering);
    steering.result() = LEAT_TRY(steering.ask(request_of("list", options.session)));
    const Json& sessions = steering.result().at("sessions");
    if (!options.session) {
        say_text(steering, text_of_sessions(sessions));
        return {};
    }
    for (const Json& session : sessions) say_text(steering, text_of_session(session));
    return {};
}

Outcome<void> status(const VerbOptions& options, Steering& steering) {
    steering.result() = LEAT_TRY(steering.ask(request_of("status", options.session)));
    for (const Json& session : steering.result().at("sessions")) say_text(steering, text_of_session(session));
    // Older daemons do not say.
    if (const auto found = steering.result().find("descriptors"); found != steering.result().end())
        say_text(steering, text_of_descriptors(*found));
    return {};
}

}  // namespace

void add_listing_verbs(CLI::App& app, int& exit_status) {
    const auto listing = add_verb(app, exit_status, "list", "show sessions, or programs that can be traced", list);
    add_session_argument(listing.command, listing.options, "show all of this session");
    listing.command.add_flag("--programs", listing.options.has_programs, "Show programs and their events");
    listing.command.add_flag("-u,--userspace", listing.options.has_programs)->group("");  // as lttng has it
    listing.command.footer(kListFooter);
    const auto current = add_verb(app, exit_status, "status", "show all of one session", status);
    add_session_option(current.command, current.options);
}

}  // namespace leat::cli
