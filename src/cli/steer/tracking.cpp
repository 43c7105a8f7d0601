// Verbs for tracked processes: track, untrack.
#include <grp.h>
#include <pwd.h>

#include <charconv>

#include "cli/command.hpp"
#include "cli/steer/comma_list.hpp"
#include "cli/steer/verb.hpp"
#include "session/tracked.hpp"

namespace leat::cli {
namespace {

constexpr char kTrackFooter[] =
    "At first a session records all processes. The first process, user or group that is tracked takes the place of "
    "all.\n"
    "Examples:\n"
    "  leat track --vpid=1234,1235\n"
    "  leat track --vuid=www-data\n"
    "  leat track --vpid=all";

constexpr char kEverything[] = "all";

struct TrackOptions : VerbOptions {
    std::vector<std::string> processes{};
    std::vector<std::string> users{};
    std::vector<std::string> groups{};
};

std::optional<std::uint32_t> parse_number(const std::string& text) {
    std::uint32_t number = 0;
    const char* const end = text.data() + text.size();
    const auto [number_end, error] = std::from_chars(text.data(), end, number);
    return error == std::errc{} && number_end == end ? std::optional(number) : std::nullopt;
}

template <class Id>
Outcome<Json> checked_id(std::uint32_t id, const char* whose) {
    if (id > session::kMostId<Id>) return usage("{} is not the id of a {}", id, whose);
    return Json(id);
}

using Identify = Outcome<Json> (*)(const std::string&);

Outcome<Json> process_id(const std::string& text) {
    const auto id = parse_number(text);
    if (!id) return usage("\"{}\" is not the id of a process, nor \"all\"", text);
    return checked_id<pid_t>(*id, "process");
}

// NOLINTBEGIN(concurrency-mt-unsafe): one thread
Outcome<Json> user_id(const std::string& text) {
    if (const auto id = parse_number(text)) return checked_id<uid_t>(*id, "user");
    const passwd* const user = ::getpwnam(text.c_str());
    if (user == nullptr) return tl::unexpected(Failure("not-found", fmt::format("there is no user \"{}\"", text)));
    return Json(user->pw_uid);
}

Outcome<Json> group_id(const std::string& text) {
    if (const auto id = parse_number(text)) return checked_id<gid_t>(*id, "group");
    const group* const found = ::getgrnam(text.c_str());
    if (found == nullptr) return tl::unexpected(Failure("not-found", fmt::format("there is no group \"{}\"", text)));
    return Json(found->gr_gid);
}
// NOLINTEND(concurrency-mt-unsafe)

struct Tracked {
    const char* key;
    Json value;
};

Outcome<std::vector<Tracked>> tracked_of(const TrackOptions& options) {
    struct Kind {
        const char* key;
        const std::vector<std::string>& texts;
        Identify identify;
    };
    std::vector<Tracked> tracked;
    for (const Kind& kind : {Kind{"vpid", options.processes, process_id}, Kind{"vuid", options.users, user_id},
                             Kind{"vgid", options.groups, group_id}})
        for (const std::string& text : split_at_commas(kind.texts))
            tracked.push_back({kind.key, text == kEverything ? Json(text) : LEAT_TRY(kind.identify(text))});
    if (tracked.empty()) return usage("give --vpid, --vuid or --vgid");
    return tracked;
}

// One request for each, up to the first that fails.
Outcome<void> ask_for_tracked(const char* verb, const TrackOptions& options, const char* done, Steering& steering) {
    const std::vector<Tracked> all = LEAT_TRY(tracked_of(options));
    Json& list = steering.result()[done] = Json::array();
    for (const Tracked& tracked : all) {
        Json request = request_of(verb, options.session);
        request[tracked.key] = tracked.value;
        const Json answer = LEAT_TRY(steering.ask(request));
        Json entry{{tracked.key, tracked.value}};
        if (is_done_already(answer)) entry["already"] = true;
        list.push_back(std::move(entry));
        const bool is_all = tracked.value.is_string();
        steering.say(fmt::format("{} {} {}{} in session {}", tracked.key, is_all ? kEverything : tracked.value.dump(),
                                 is_done_already(answer) ? "is already " : "", done, quoted_member(answer, "session")));
    }
    return {};
}

Outcome<void> track(const TrackOptions& options, Steering& steering) {
    return ask_for_tracked("track", options, "tracked", steering);
}

Outcome<void> untrack(const TrackOptions& options, Steering& steering) {
    return ask_for_tracked("untrack", options, "untracked", steering);
}

void add_track_options(const Verb<TrackOptions>& verb) {
    add_texts(verb.command, "--vpid", verb.options.processes, "Process ids, as the processes see them; or all")
        ->type_name("N|all");
    add_texts(verb.command, "--vuid", verb.options.users, "Users, as names or ids; or all")->type_name("USER|all");
    add_texts(verb.command, "--vgid", verb.options.groups, "Groups, as names or ids; or all")->type_name("GROUP|all");
    add_session_option(verb.command, verb.options);
    accept_userspace(verb.command);
    verb.command.footer(kTrackFooter);
}

}  // namespace

void add_tracking_verbs(CLI::App& app, int& exit_status) {
    add_track_options(add_verb(app, exit_status, "track", "record only some processes", track));
    add_track_options(add_verb(app, exit_status, "untrack", "no longer record some processes", untrack));
}

}  // namespace leat::cli
