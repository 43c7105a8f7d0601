// Verbs about what a session records: its channels, rules, contexts, processes.
#include <algorithm>
#include <set>

#include "base/printable_text.hpp"
#include "base/shell_word.hpp"
#include "session/contexts.hpp"
#include "sessiond/commands.hpp"
#include "sessiond/session_json.hpp"

namespace leat::sessiond {
namespace {

using nlohmann::json;
using session::Channel;
using session::EventRule;
using session::Session;

constexpr char kDefaultChannel[] = "channel0";

Channel* find_channel(DaemonSession& session, const std::string& name) {
    auto& channels = session.session.channels();
    const auto found = std::ranges::find(channels, name, &Channel::name);
    return found == channels.end() ? nullptr : &*found;
}

tl::unexpected<Error> no_such_channel(const DaemonSession& session, const std::string& name) {
    return not_found("session \"{}\" has no channel \"{}\": see leat list {}", session.session.name(), printable(name),
                     shell_word(session.session.name()));
}

// Traces have the channels and contexts that there were when they began.
Result<void> check_not_started(const DaemonSession& session, const char* what) {
    if (!session.was_started) return {};
    return refused("session \"{}\" was started before: {} chosen before that", session.session.name(), what);
}

Result<Channel*> add_channel(DaemonSession& session, Channel channel) {
    LEAT_TRY(check_channel_name(channel.name));
    LEAT_TRY(check_not_started(session, "channels are"));
    auto& channels = session.session.channels();
    if (channels.size() >= kMaxChannels)
        return refused("session \"{}\" has {} channels already", session.session.name(), kMaxChannels);
    for (const Channel& other : channels) LEAT_TRY(check_together(channel, other));
    if (channel.is_trigger) return bad_usage("the channel of --snapshot-on is made by itself");
    LEAT_TRY(check_mode(channel, session.session.is_for_snapshots()));
    channel.overwrites = session.session.is_for_snapshots();
    channels.push_back(std::move(channel));
    return &channels.back();
}

json about(const DaemonSession& session, const Channel& channel) {
    json answer = answer_ok();
    answer["session"] = session.session.name();
    answer["channel"] = channel.name;
    return answer;
}

// What track and untrack are about.
struct Subject {
    const char* kind = nullptr;
    std::optional<std::int64_t> id{};  // none: all
};

Result<Subject> subject_of(Members& members) {
    Subject subject;
    for (const char* const kind : {"vpid", "vuid", "vgid"}) {
        const json* const value = members.any(kind);
        if (value == nullptr) continue;
        if (subject.kind != nullptr) return bad_usage("one of vpid, vuid and vgid at a time");
        subject.kind = kind;
        const std::int64_t most = std::string_view(kind) == "vpid" ? session::kMostId<pid_t> : session::kMostId<uid_t>;
        if (*value != "all") subject.id = members.number(kind, 0, most);
    }
    if (subject.kind == nullptr) return bad_usage("which processes: give vpid, vuid or vgid");
    LEAT_TRY(members.check());
    return subject;
}

// Whether it changed anything. The first one that is tracked takes the place of all.
template <class Id>
bool track_id(std::optional<std::set<Id>>& ids, const Subject& subject) {
    if (!subject.id) return std::exchange(ids, std::nullopt).has_value();
    if (!ids) ids.emplace();
    return ids->insert(static_cast<Id>(*subject.id)).second;
}

template <class Id>
Result<bool> untrack_id(std::optional<std::set<Id>>& ids, const Subject& subject) {
    if (!subject.id) {
        const bool was_empty = ids && ids->empty();
        ids.emplace();
        return !was_empty;
    }
    if (!ids) return refused("all of {} are tracked: track some first, the others are not tracked then", subject.kind);
    if (ids->erase(static_cast<Id>(*subject.id)) == 0)
        return not_found("{} {} is not tracked", subject.kind, *subject.id);
    return true;
}

// Whether the request asks for nothing that the channel does not have.
bool is_described_by(const json& request, const json& channel) {
    static const std::set<std::string> kOthers{"version", "verb", "session", "channel", "blocking_timeout_us"};
    return std::ranges::all_of(request.items(), [&](const auto& member) {
        return kOthers.contains(member.key()) || channel.value(member.key(), json()) == member.value();
    });
}

// The same, with what it means by "blocking_timeout_us", or by "mode" alone.
bool is_asked_for(const json& request, const Channel& asked, const Channel& known, Session::Buffers buffers) {
    const bool has_timeout = request.contains("mode") || request.contains("blocking_timeout_us");
    return is_described_by(request, channel_json(known, buffers)) &&
           (!has_timeout || asked.blocking_timeout_us == known.blocking_timeout_us);
}

}  // namespace

// A rule whose channel is not named belongs to channel0, or to the only channel that there is.
Result<Channel*> Commands::channel_of(DaemonSession& session, const std::optional<std::string>& name) {
    if (name) {
        Channel* const channel = find_channel(session, *name);
        return channel != nullptr ? Result<Channel*>(channel) : no_such_channel(session, *name);
    }
    auto& channels = session.session.channels();
    const auto count = std::ranges::count(channels, false, &Channel::is_trigger);
    if (count == 1) return &*std::ranges::find(channels, false, &Channel::is_trigger);
    if (Channel* const channel = find_channel(session, kDefaultChannel)) return channel;
    if (session.was_started && count > 1)
        return refused("session \"{}\" has several channels, none of them {}: name one with -c", session.session.name(),
                       kDefaultChannel);
    return add_channel(session, {.name = kDefaultChannel, .rules = {}});
}

std::optional<Commands::Answer> Commands::enable_channel(Call& call) {
    auto session = session_of(call);
    Channel channel{.name = call.members.needed_text("channel"), .rules = {}};
    const auto read = read_channel(call.members, channel);
    const auto buffers = call.members.text("buffers");
    const auto mode = call.members.text("mode");
    if (auto wrong = call.members.check(); !wrong) return tl::unexpected(std::move(wrong).error());
    if (!session) return tl::unexpected(std::move(session).error());
    if (!read) return tl::unexpected(read.error());
    if (buffers && buffers != "user" && buffers != "pid")
        return bad_usage("\"buffers\" is user or pid, not \"{}\"", printable(*buffers));
    if (mode == "discard" && (*session)->session.is_for_snapshots())
        return refused("channels of a session of snapshots overwrite their oldest events: they do not discard");
    if (Channel* const known = find_channel(**session, channel.name)) {
        if (!is_asked_for(call.members.object(), channel, *known, (*session)->session.buffers()))
            return refused("channel \"{}\" exists with others: its parameters cannot be changed", channel.name);
        json answer = about(**session, *known);
        if (std::exchange(known->is_enabled, true)) {
            answer["already"] = true;
            return answer;
        }
        return changed(std::move(answer));
    }
    const auto scheme = !buffers           ? (*session)->session.buffers()
                        : buffers == "pid" ? Session::Buffers::kPid
                                           : Session::Buffers::kUser;
    if (!(*session)->session.channels().empty() && (*session)->session.buffers() != scheme)
        return refused("all channels of a session have their buffers in one way, and session \"{}\" has others",
                       (*session)->session.name());
    auto added = add_channel(**session, std::move(channel));
    if (added) (*session)->session.set_buffers(scheme);
    if (!added) return tl::unexpected(std::move(added).error());
    return about(**session, **added);
}

std::optional<Commands::Answer> Commands::disable_channel(Call& call) {
    auto session = session_of(call);
    const std::string name = call.members.needed_text("channel");
    if (auto wrong = call.members.check(); !wrong) return tl::unexpected(std::move(wrong).error());
    if (!session) return tl::unexpected(std::move(session).error());
    Channel* const channel = find_channel(**session, name);
    if (channel == nullptr) return no_such_channel(**session, name);
    json answer = about(**session, *channel);
    if (!std::exchange(channel->is_enabled, false)) {
        answer["already"] = true;
        return answer;
    }
    return changed(std::move(answer));
}

std::optional<Commands::Answer> Commands::enable_event(Call& call) {
    auto session = session_of(call);
    const auto name = call.members.text("channel");
    auto rule = rule_of(call.members);
    if (auto wrong = call.members.check(); !wrong) return tl::unexpected(std::move(wrong).error());
    if (!session) return tl::unexpected(std::move(session).error());
    if (!rule) return tl::unexpected(std::move(rule).error());
    const auto channel = channel_of(**session, name);
    if (!channel) return tl::unexpected(channel.error());
    json answer = about(**session, **channel);
    answer["conflicts"] = json::array();
    auto& rules = (*channel)->rules;
    const auto known = std::ranges::find_if(rules, [&](const EventRule& other) { return other.is_like(*rule); });
    if (known != rules.end()) {
        const bool is_same = known->is_enabled && known->on_conflict == rule->on_conflict;
        *known = *rule;
        if (is_same) {
            answer["already"] = true;
            return answer;
        }
    } else if (rules.size() >= session::kMaxRules) {
        return refused("channel \"{}\" has {} rules already", (*channel)->name, session::kMaxRules);
    } else {
        rules.push_back(*std::move(rule));
    }
    const std::size_t conflicts = (*session)->session.conflicts().size();
    answer = changed(std::move(answer));
    const auto& all = (*session)->session.conflicts();
    for (std::size_t i = conflicts; i < all.size(); ++i) answer["conflicts"].push_back(conflict_json(all[i]));
    return answer;
}

std::optional<Commands::Answer> Commands::disable_event(Call& call) {
    auto session = session_of(call);
    const auto name = call.members.text("channel");
    const std::string pattern = call.members.needed_text("pattern");
    if (auto wrong = call.members.check(); !wrong) return tl::unexpected(std::move(wrong).error());
    if (!session) return tl::unexpected(std::move(session).error());
    if (name && find_channel(**session, *name) == nullptr) return no_such_channel(**session, *name);
    json changed_in = json::array();
    json known_in = json::array();
    for (Channel& channel : (*session)->session.channels()) {
        // The one of --snapshot-on goes on unless it is named.
        if (name ? channel.name != *name : channel.is_trigger) continue;
        bool is_known = false;
        bool is_changed = false;
        for (EventRule& rule : channel.rules) {
            if (rule.pattern != pattern) continue;
            is_known = true;
            is_changed |= std::exchange(rule.is_enabled, false);
        }
        if (is_known) known_in.push_back(channel.name);
        if (is_changed) changed_in.push_back(channel.name);
    }
    const std::string& session_name = (*session)->session.name();
    if (known_in.empty())
        return not_found("session \"{}\" has no rule \"{}\": see leat list {}", session_name, printable(pattern),
                         shell_word(session_name));
    json answer = answer_ok();
    answer["session"] = session_name;
    answer["channels"] = changed_in.empty() ? known_in : changed_in;
    answer["channel"] = answer["channels"].back();
    if (changed_in.empty()) {
        answer["already"] = true;
        return answer;
    }
    return changed(std::move(answer));
}

std::optional<Commands::Answer> Commands::add_context(Call& call) {
    auto session = session_of(call);
    const auto name = call.members.text("channel");
    const auto contexts = contexts_of(call.members.texts("contexts"));
    if (auto wrong = call.members.check(); !wrong) return tl::unexpected(std::move(wrong).error());
    if (!session) return tl::unexpected(std::move(session).error());
    if (!contexts) return tl::unexpected(contexts.error());
    if (contexts->empty()) return bad_usage("which contexts: {}", session::all_context_names());
    auto& channels = (*session)->session.channels();
    if (name && find_channel(**session, *name) == nullptr) return no_such_channel(**session, *name);
    if (channels.empty())
        return refused("session \"{}\" has no channel: make one with leat enable-channel or leat enable-event",
                       (*session)->session.name());
    json answer = answer_ok();
    answer["session"] = (*session)->session.name();
    answer["channels"] = json::array();
    std::vector<std::pair<Channel*, session::Contexts>> changes;
    for (Channel& channel : channels) {
        if (name && channel.name != *name) continue;
        answer["channels"].push_back(channel.name);
        auto all = joined(channel.contexts, *contexts);
        if (!all) return tl::unexpected(std::move(all).error());
        if (*all != channel.contexts) changes.emplace_back(&channel, *std::move(all));
    }
    if (changes.empty()) {
        answer["already"] = true;
        return answer;
    }
    const auto allowed = check_not_started(**session, "contexts are");
    if (!allowed) return tl::unexpected(allowed.error());
    for (auto& [channel, all] : changes) channel->contexts = std::move(all);
    return answer;
}

// `change` does it to the ids of one kind, and tells whether that changed anything.
template <class Change>
std::optional<Commands::Answer> Commands::change_tracked(Call& call, Change change) {
    auto session = session_of(call);
    const auto subject = subject_of(call.members);
    if (!session) return tl::unexpected(std::move(session).error());
    if (!subject) return tl::unexpected(subject.error());
    session::Tracked& tracked = (*session)->session.tracked();
    const std::string kind = subject->kind;
    const Result<bool> is_new = kind == "vpid"   ? change(tracked.vpids, *subject)
                                : kind == "vuid" ? change(tracked.vuids, *subject)
                                                 : change(tracked.vgids, *subject);
    if (!is_new) return tl::unexpected(is_new.error());
    json answer = answer_ok();
    answer["session"] = (*session)->session.name();
    if (!*is_new) {
        answer["already"] = true;
        return answer;
    }
    return changed(std::move(answer));
}

std::optional<Commands::Answer> Commands::track(Call& call) {
    return change_tracked(call, [](auto& ids, const Subject& subject) { return Result<bool>(track_id(ids, subject)); });
}

std::optional<Commands::Answer> Commands::untrack(Call& call) {
    return change_tracked(call, [](auto& ids, const Subject& subject) { return untrack_id(ids, subject); });
}

}  // namespace leat::sessiond
