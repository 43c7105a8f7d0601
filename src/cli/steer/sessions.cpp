// Verbs for whole sessions: create, set-session, start, stop, destroy, rotate, clear, regenerate.
#include "base/printable_text.hpp"
#include "cli/command.hpp"
#include "cli/repeated_option.hpp"
#include "cli/steer/limit_options.hpp"
#include "cli/steer/place_options.hpp"
#include "cli/steer/quantities.hpp"
#include "cli/steer/session_text.hpp"
#include "cli/steer/verb.hpp"

namespace leat::cli {
namespace {

constexpr char kCreateFooter[] =
    "Starts leat-sessiond if no session daemon runs. The new session becomes the current one.\n"
    "Examples:\n"
    "  leat create web                          into ~/leat-traces/web-DATE-TIME\n"
    "  leat create web -o /var/tmp/web-trace    into this one\n"
    "  leat create web --live=net://relay-host  to a relay, for readers who follow it\n"
    "  leat create web -o /var/tmp/web-trace --live=net://relay-host  to both\n"
    "  leat create web --duration=10s --max-size=50M  that stops by itself, whichever comes first\n"
    "  leat enable-event 'nginx:*,db:*' && leat start && sleep 60 && leat destroy";

struct CreateOptions : PlaceOptions {
    LimitOptions limits{};
    bool is_for_snapshots = false;
    std::vector<std::string> snapshot_on{};
};

Outcome<void> create(const CreateOptions& options, Steering& steering) {
    Json request = request_of("create", options.session);
    LEAT_TRY(put_places(options, request));
    const auto limits = limits_of(options.limits);
    if (!limits) return usage("{}", limits.error().message);
    if (limits->duration_us != 0) request["duration_us"] = limits->duration_us;
    if (limits->max_size != 0) request["max_size"] = limits->max_size;
    if (!options.is_for_snapshots && !options.snapshot_on.empty())
        return usage("--snapshot-on is for sessions of snapshots: add --snapshot");
    if (options.is_for_snapshots) request["snapshot"] = true;
    if (!options.snapshot_on.empty()) request["snapshot_on"] = options.snapshot_on;
    steering.allow_start();
    steering.result() = LEAT_TRY(steering.ask(request));
    const Json& answer = steering.result();
    steering.say(fmt::format("session {} created: its {} to {}{}", quoted_member(answer, "session"),
                             options.is_for_snapshots ? "snapshots go" : "trace goes",
                             printable(answer.at("output").get<std::string>()), text_of_relay(answer)));
    return {};
}

// Verbs that have a session, and nothing else.
Outcome<Json> ask_for_session(const char* verb, const VerbOptions& options, Steering& steering) {
    steering.result() = LEAT_TRY(steering.ask(request_of(verb, options.session)));
    return steering.result();
}

Outcome<void> set_session(const VerbOptions& options, Steering& steering) {
    const Json answer = LEAT_TRY(ask_for_session("set-session", options, steering));
    steering.say(fmt::format("{} is {} current session", quoted_member(answer, "session"),
                             is_done_already(answer) ? "already the" : "now the"));
    return {};
}

Outcome<void> start(const VerbOptions& options, Steering& steering) {
    const Json answer = LEAT_TRY(ask_for_session("start", options, steering));
    steering.say(fmt::format("session {} {}", quoted_member(answer, "session"),
                             is_done_already(answer) ? "is active already" : "started"));
    return {};
}

Outcome<void> stop(const VerbOptions& options, Steering& steering) {
    const Json answer = LEAT_TRY(ask_for_session("stop", options, steering));
    steering.say(fmt::format("session {} {}{}", quoted_member(answer, "session"),
                             is_done_already(answer) ? "is stopped already" : "stopped", text_of_counts(answer)));
    return {};
}

// Of one session, or of all.
struct ManyOptions : VerbOptions {
    bool is_of_all = false;
};

using TextOfAnswer = std::string (*)(const Json& answer);

// One after the other. What one of them cannot do keeps nobody else from it: it is told at the end, the first as an
// error. A session that is gone by now is what somebody else has destroyed.
Outcome<void> ask_for_all(const char* verb, TextOfAnswer text, Steering& steering) {
    const Json listed = LEAT_TRY(steering.ask(request_of("list", std::nullopt)));
    Json answers = Json::array();
    std::vector<Failure> failures;
    for (const Json& session : listed.at("sessions")) {
        auto answer = steering.ask(request_of(verb, session.at("name").get<std::string>()));
        if (answer) {
            steering.say(text(*answer));
            answers.push_back(*std::move(answer));
        } else if (answer.error().kind != kind_name(ErrorKind::kNotFound)) {
            failures.push_back(std::move(answer).error());
        }
    }
    if (answers.empty() && failures.empty()) steering.say("no session");
    steering.result()["sessions"] = std::move(answers);
    if (failures.empty()) return {};
    for (std::size_t i = 1; i < failures.size(); ++i) steering.warn(failures[i].message);
    return tl::unexpected(std::move(failures.front()));
}

Outcome<void> ask_for_some(const char* verb, TextOfAnswer text, const ManyOptions& options, Steering& steering) {
    if (options.is_of_all && options.session) return usage("--all is for all sessions: leave out NAME");
    if (options.is_of_all) return ask_for_all(verb, text, steering);
    steering.say(text(LEAT_TRY(ask_for_session(verb, options, steering))));
    return {};
}

Outcome<void> destroy(const ManyOptions& options, Steering& steering) {
    const TextOfAnswer text = [](const Json& answer) {
        return fmt::format("session {} destroyed{}", quoted_member(answer, "session"), text_of_counts(answer));
    };
    return ask_for_some("destroy", text, options, steering);
}

Outcome<void> rotate(const VerbOptions& options, Steering& steering) {
    const Json answer = LEAT_TRY(ask_for_session("rotate", options, steering));
    steering.say(fmt::format("session {} rotated: the complete chunk is {}", quoted_member(answer, "session"),
                             printable(answer.at("chunk").get<std::string>())));
    return {};
}

Outcome<void> clear(const ManyOptions& options, Steering& steering) {
    const TextOfAnswer text = [](const Json& answer) {
        return fmt::format("session {} cleared", quoted_member(answer, "session"));
    };
    return ask_for_some("clear", text, options, steering);
}

struct SnapshotOptions : VerbOptions {
    std::string what{};
    std::string name{};
    std::string output{};
    std::string max_size{};
};

Outcome<void> snapshot(const SnapshotOptions& options, Steering& steering) {
    Json request = request_of("snapshot", options.session);
    request["what"] = options.what;
    if (!options.name.empty()) request["name"] = options.name;
    if (is_url(options.output))
        request["output"] = options.output;
    else if (!options.output.empty())
        request["directory"] = LEAT_TRY(absolute_path(options.output));
    if (!options.max_size.empty()) {
        const auto size = parse_size(options.max_size);
        if (!size || *size == 0) return usage("--max-size {}: a number of bytes above 0", quoted(options.max_size));
        request["max_size"] = *size;
    }
    steering.result() = LEAT_TRY(steering.ask(request));
    const Json& answer = steering.result();
    const auto number = [&answer](const char* key) { return answer.at(key).get<std::uint64_t>(); };
    steering.say(fmt::format("session {}: {} events of the last {}, {}; {}", quoted_member(answer, "session"),
                             number("events"), span_for_people(number("span_ns")), size_for_people(number("bytes")),
                             text_of_snapshot_place(printable(answer.at("snapshot").get<std::string>()),
                                                    printable(answer.value("relay", std::string())))));
    return {};
}

struct RegenerateOptions : VerbOptions {
    std::string what{};
};

Outcome<void> regenerate(const RegenerateOptions& options, Steering& steering) {
    Json request = request_of("regenerate", options.session);
    request["what"] = options.what;
    steering.result() = LEAT_TRY(steering.ask(request));
    steering.say(
        fmt::format("{} of session {} written again", options.what, quoted_member(steering.result(), "session")));
    return {};
}

}  // namespace

void add_create_verb(CLI::App& app, int& exit_status) {
    const auto [command, options] = add_verb(app, exit_status, "create", "make a session", create);
    add_session_argument(command, options, "name of the new session");
    command.get_option("NAME")->required();
    add_place_options(command, options);
    add_limit_options(command, options.limits);
    command.add_flag("--snapshot", options.is_for_snapshots,
                     "Keep the last events in the rings alone, and store them in snapshots: by leat snapshot record, "
                     "when a program asks for one, and when one crashes. --max-size then limits each of them");
    repeated(command.add_option("--snapshot-on", options.snapshot_on,
                                "With --snapshot: store one when an event of this name happens"))
        ->type_name("GLOB");
    command.footer(kCreateFooter);
}

void add_snapshot_verb(CLI::App& app, int& exit_status) {
    const auto [command, options] =
        add_verb(app, exit_status, "snapshot", "store what happened last, of a session of snapshots", snapshot);
    command.add_option("WHAT", options.what, "record")->required()->check(CLI::IsMember({"record"}));
    add_session_argument(command, options, "the session (default: the current one)");
    command.add_option("-n,--name", options.name, "Begin the name of its directory so (default: snapshot-1)")
        ->type_name("PREFIX");
    command
        .add_option("-o,--output", options.output,
                    "Directory of this one, or net://HOST[:CONTROL[:DATA]], a relay (default: where the session's go)")
        ->type_name("DIR|URL");
    command.add_option("-m,--max-size", options.max_size, "Only the newest packets, so many bytes of them at most")
        ->type_name("SIZE");
    command.footer(
        "Examples:\n"
        "  leat create web --snapshot && leat enable-event 'nginx:*' && leat start\n"
        "  leat snapshot record                   store the last events of the current session\n"
        "  leat snapshot record web --max-size 1M -o /var/tmp/what-happened\n"
        "  leat snapshot record web -o net://relay-host");
}

void add_session_verbs(CLI::App& app, int& exit_status) {
    struct Simple {
        const char* name;
        const char* description;
        Outcome<void> (*run)(const VerbOptions&, Steering&);
    };
    constexpr char kCurrent[] = "the session (default: the current one)";
    for (const Simple& verb :
         {Simple{"start", "record from now on", start},
          Simple{"stop", "stop recording: all events so far can be read", stop},
          Simple{"rotate", "finish a chunk of the trace, which can be moved, and go on in another", rotate}}) {
        const auto [command, options] = add_verb(app, exit_status, verb.name, verb.description, verb.run);
        add_session_argument(command, options, kCurrent);
    }
    struct OfMany {
        const char* name;
        const char* description;
        Outcome<void> (*run)(const ManyOptions&, Steering&);
    };
    for (const OfMany& verb : {OfMany{"destroy", "stop and remove a session; its trace stays", destroy},
                               OfMany{"clear", "throw away what was recorded", clear}}) {
        const auto [command, options] = add_verb(app, exit_status, verb.name, verb.description, verb.run);
        add_session_argument(command, options, kCurrent);
        command.add_flag("-a,--all", options.is_of_all, "All sessions, and not the current one");
    }
    const auto set = add_verb(app, exit_status, "set-session", "choose the current session", set_session);
    add_session_argument(set.command, set.options, "the session");
    set.command.get_option("NAME")->required();
    const auto again = add_verb(app, exit_status, "regenerate",
                                "write metadata with the right time of day, or sticky events once more", regenerate);
    again.command.add_option("WHAT", again.options.what, "metadata or statedump")
        ->required()
        ->check(CLI::IsMember({"metadata", "statedump"}));
    add_session_argument(again.command, again.options, kCurrent);
}

}  // namespace leat::cli
