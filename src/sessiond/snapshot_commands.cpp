// Snapshots of sessions that were made for them.
#include <unistd.h>

#include <utility>

#include "sessiond/commands.hpp"

namespace leat::sessiond {
namespace {

using nlohmann::json;

constexpr char kRecord[] = "record";

json answer_of(const std::string& session, const host::StoredSnapshot& stored) {
    const consumer::SnapshotTotals& totals = stored.totals;
    json answer = answer_ok();
    answer["session"] = session;
    answer["snapshot"] = stored.directory.string();
    if (!stored.relay.empty()) answer["relay"] = stored.relay;
    answer["events"] = totals.events;
    answer["bytes"] = totals.bytes;
    answer["span_ns"] = totals.packets == 0 ? 0 : totals.end - totals.begin;
    answer["warnings"] = json::array();
    if (totals.unreadable != 0)
        answer["warnings"].push_back(
            fmt::format("a traced program wrote over {} of its events in the ring", totals.unreadable));
    for (const std::string& quarantined : totals.quarantined)
        answer["warnings"].push_back(quarantined + "; it is not in the snapshot");
    return answer;
}

Result<host::SnapshotOrder> order_of(Members& members) {
    host::SnapshotOrder order;
    if (const auto name = members.text("name")) {
        order.name = *name;
        LEAT_TRY(check_name(*name, "snapshot"));
    }
    order.max_size = static_cast<std::uint64_t>(members.number("max_size", 1, INT64_MAX).value_or(0));
    if (const auto directory = members.text("directory")) {
        order.directory = std::filesystem::path(*directory).lexically_normal();
        if (!order.directory.is_absolute() || directory->find('\0') != std::string::npos)
            members.refuse("\"directory\" is no absolute path");
    }
    if (const auto url = members.text("output")) {
        if (!order.directory.empty()) members.refuse("a snapshot goes to a directory or to a relay, not to both");
        auto relay = net::parse_relay_address(*url);
        if (!relay) return bad_usage("{}", relay.error().message);
        LEAT_TRY(host::check_relay_of_snapshots(*relay));
        order.relay = *std::move(relay);
    }
    return order;
}

}  // namespace

std::optional<Commands::Answer> Commands::snapshot(Call& call) {
    auto session = session_of(call);
    const std::string what = call.members.needed_text("what");
    auto order = order_of(call.members);
    if (auto wrong = call.members.check(); !wrong) return tl::unexpected(std::move(wrong).error());
    if (what != kRecord) return bad_usage("\"what\" is \"{}\"", kRecord);
    if (!order) return tl::unexpected(std::move(order).error());
    if (!session) return tl::unexpected(std::move(session).error());
    const std::string name = (*session)->session.name();
    if (!(*session)->session.is_for_snapshots())
        return refused("session \"{}\" stores all of its events: create one with --snapshot", name);
    // It is written with the rights of the session's owner, and holds what that user's session records.
    const uid_t owner = (*session)->place.owner ? (*session)->place.owner->uid : ::geteuid();
    const bool has_own_place = !order->directory.empty() || order->relay;
    if (has_own_place && call.client.uid != owner && call.client.uid != 0)
        return refused("session \"{}\" is user {}'s: only that user and root choose another place", name, owner);
    if (!(*session)->was_started) return refused("session \"{}\" was never started: there is nothing to store", name);
    tracing_.look();
    // Programs may wait for rings: then it is not for want of events that there is nothing.
    const std::string& reason = (*session)->session.refused().reason;
    if (!reason.empty() && (*session)->session.traces().empty() && (*session)->ending_traces.empty())
        return refused("no program has rings of session \"{}\", so there is nothing to store: {}", name, reason);
    tracing_.take_snapshot(
        **session, *std::move(order),
        [name, reply = call.reply](const std::string& trouble, const host::StoredSnapshot& stored) {
            reply(trouble.empty() ? answer_of(name, stored) : answer_error({ErrorKind::kRefused, trouble}));
        });
    return std::nullopt;
}

}  // namespace leat::sessiond
