// What a session wrote once, written again.
#include <utility>

#include "sessiond/commands.hpp"

namespace leat::sessiond {
namespace {

using nlohmann::json;

constexpr char kMetadata[] = "metadata";
constexpr char kStatedump[] = "statedump";

json answer_of(const std::string& session, const char* what) {
    json answer = answer_ok();
    answer["session"] = session;
    answer["what"] = what;
    return answer;
}

}  // namespace

std::optional<Commands::Answer> Commands::regenerate(Call& call) {
    auto session = session_of(call);
    const std::string what = call.members.needed_text("what");
    if (auto wrong = call.members.check(); !wrong) return tl::unexpected(std::move(wrong).error());
    if (what != kMetadata && what != kStatedump)
        return bad_usage("\"what\" is neither \"{}\" nor \"{}\"", kMetadata, kStatedump);
    if (!session) return tl::unexpected(std::move(session).error());
    if (what == kStatedump) return regenerate_statedump(**session, call.reply);
    return regenerate_metadata(**session, call.reply);
}

// Viewers of a live session go on with the metadata that they have.
std::optional<Commands::Answer> Commands::regenerate_metadata(const DaemonSession& session, Reply reply) {
    const std::string name = session.session.name();
    if (session.place.destination.is_live)
        return refused("session \"{}\" is live: its viewers have read the metadata: destroy and create it anew", name);
    if (session.session.is_for_snapshots())
        return refused("session \"{}\" stores snapshots alone, which keep the metadata that they have", name);
    if (!session.was_started) return refused("session \"{}\" was never started: it has no metadata yet", name);
    session.thread->regenerate_metadata([name, reply = std::move(reply)](const std::string& trouble) {
        reply(trouble.empty() ? answer_of(name, kMetadata) : answer_error({ErrorKind::kRefused, trouble}));
    });
    return std::nullopt;
}

// Whoever has the answer finds the values as they were before: a program may change them afterwards.
std::optional<Commands::Answer> Commands::regenerate_statedump(DaemonSession& session, Reply reply) {
    const std::string name = session.session.name();
    if (!session.session.is_active()) return refused("session \"{}\" is not active: start it first", name);
    tracing_.look();
    tracing_.replay_sticky_values(session);
    session.thread->settle([name, reply = std::move(reply)](const std::string& trouble) {
        json answer = answer_of(name, kStatedump);
        if (!trouble.empty()) answer["warnings"] = json::array({trouble + ": events stay in the rings"});
        reply(std::move(answer));
    });
    return std::nullopt;
}

}  // namespace leat::sessiond
