#include "sessiond/commands.hpp"

#include <unistd.h>

#include <algorithm>

#include "base/log.hpp"
#include "base/printable_text.hpp"

namespace leat::sessiond {
namespace {

using nlohmann::json;

constexpr int kVersion = 1;

}  // namespace

const std::map<std::string, Commands::Handler, std::less<>>& Commands::verbs() {
    static const std::map<std::string, Handler, std::less<>> table{
        {"version", &Commands::version},
        {"create", &Commands::create},
        {"set-session", &Commands::set_session},
        {"destroy", &Commands::destroy},
        {"start", &Commands::start},
        {"stop", &Commands::stop},
        {"enable-channel", &Commands::enable_channel},
        {"disable-channel", &Commands::disable_channel},
        {"enable-event", &Commands::enable_event},
        {"disable-event", &Commands::disable_event},
        {"add-context", &Commands::add_context},
        {"track", &Commands::track},
        {"untrack", &Commands::untrack},
        {"list", &Commands::list},
        {"list-programs", &Commands::list_programs},
        {"status", &Commands::status},
        {"save", &Commands::save},
        {"load", &Commands::load},
        {"rotate", &Commands::rotate},
        {"clear", &Commands::clear},
        {"regenerate", &Commands::regenerate},
        {"snapshot", &Commands::snapshot},
        {"enable-rotation", &Commands::not_built},
        {"disable-rotation", &Commands::not_built},
        {"add-trigger", &Commands::not_built},
        {"list-triggers", &Commands::not_built},
        {"remove-trigger", &Commands::not_built},
    };
    return table;
}

void Commands::handle(const Client& client, const json& request, Reply reply) {
    Members members(request, "the request");
    const auto version = members.number("version", 0, INT64_MAX);
    const std::string verb = members.needed_text("verb");
    if (version && *version != kVersion)
        return reply(answer_error({ErrorKind::kUnsupported,
                                   fmt::format("the client speaks version {} of the control protocol, this daemon {}: "
                                               "upgrade the older one",
                                               *version, kVersion)}));
    const auto found = verbs().find(verb);
    if (!version || found == verbs().end()) {
        const auto wrong = members.check();
        return reply(answer_error({ErrorKind::kCorrupt, !version                 ? "the request has no version"
                                                        : verb.empty() && !wrong ? wrong.error().message
                                                                                 : "unknown verb " + printable(verb)}));
    }
    if (when_ended_) return reply(answer_error(daemon_ends()));
    const auto logged_reply = [this, verb, uid = client.uid, reply = std::move(reply)](json answer) {
        tracing_.keep();
        log_info("{} by user {}{}", verb, uid, answer["ok"] == true ? "" : ": " + answer["error"].get<std::string>());
        if (!answer.contains("warnings")) answer["warnings"] = json::array();
        reply(std::move(answer));
    };
    Call call{client, members, logged_reply};
    const auto answer = (this->*found->second)(call);
    if (answer) logged_reply(*answer ? **answer : answer_error(answer->error()));
}

Result<DaemonSession*> Commands::session_of(Call& call) {
    auto name = call.members.text("session");
    if (!name) {
        const auto current = tracing_.current().find(call.client.uid);
        if (current == tracing_.current().end() || tracing_.find(current->second) == nullptr)
            return not_found("there is no current session: name one, or choose one with leat set-session");
        name = current->second;
    }
    DaemonSession* const session = tracing_.find(*name);
    if (session == nullptr) return tl::unexpected(no_such_session(*name));
    if (session->is_ending)
        return refused("session \"{}\" is being {}", *name, session->is_made ? "destroyed" : "created");
    return session;
}

json Commands::changed(json answer) {
    answer["warnings"] = tracing_.order_all_at_once();
    return answer;
}

std::optional<Commands::Answer> Commands::version(Call& call) {
    if (auto wrong = call.members.check(); !wrong) return tl::unexpected(std::move(wrong).error());
    json answer = answer_ok();
    answer["daemon"] = LEAT_VERSION;
    answer["pid"] = ::getpid();
    return answer;
}

std::optional<Commands::Answer> Commands::not_built(Call&) { return unsupported("this verb is not built yet"); }

}  // namespace leat::sessiond
