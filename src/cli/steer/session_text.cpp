#include "cli/steer/session_text.hpp"

#include <array>
#include <cstdint>

#include "base/printable_text.hpp"
#include "base/shell_word.hpp"
#include "cli/steer/limit_options.hpp"
#include "cli/steer/quantities.hpp"
#include "cli/steer/steering.hpp"

namespace leat::cli {
namespace {

std::string text_at(const Json& object, const char* key) { return printable(object.at(key).get<std::string>()); }

std::uint64_t number_at(const Json& object, const char* key) { return object.at(key).get<std::uint64_t>(); }

// Of a session of snapshots.
std::string text_of_snapshots(const Json& session) {
    if (!session.value("snapshot", false)) return {};
    std::string text = fmt::format("  snapshots  {} stored", number_at(session, "snapshots"));
    const char* separator = "; also at ";
    for (const Json& pattern : session.at("snapshot_on")) {
        text += separator + quoted(pattern.get<std::string>());
        separator = ", ";
    }
    return text + "\n";
}

std::uint64_t sum_of(const Json& reasons) {
    std::uint64_t sum = 0;
    for (const Json& count : reasons) sum += count.get<std::uint64_t>();
    return sum;
}

// "12 discarded: ring_full 10, no_ring 2"
std::string text_of_reasons(const Json& reasons) {
    std::string text = fmt::format("{} discarded", sum_of(reasons));
    const char* separator = ": ";
    for (const auto& [reason, count] : reasons.items()) {
        text += fmt::format("{}{} {}", separator, printable(reason), count.get<std::uint64_t>());
        separator = ", ";
    }
    return text;
}

std::string text_of_rule(const Json& rule) {
    std::string text = quoted_member(rule, "pattern");
    if (!rule.at("loglevel").is_null()) text += fmt::format(", {} or more severe", text_at(rule, "loglevel"));
    if (!rule.at("loglevel_only").is_null()) text += fmt::format(", only {}", text_at(rule, "loglevel_only"));
    const char* separator = ", but not ";
    for (const Json& exclusion : rule.at("exclude")) {
        text += separator + quoted(exclusion.get<std::string>());
        separator = ", ";
    }
    return rule.at("enabled").get<bool>() ? text : text + " (disabled)";
}

// "discard", "blocking", "blocking for 500ms at most"
std::string text_of_mode(const Json& channel) {
    const std::string mode = text_at(channel, "mode");
    const std::int64_t timeout = channel.value("blocking_timeout_us", std::int64_t{-1});
    return timeout < 0 ? mode
                       : fmt::format("{} for {} at most", mode, period_for_people(static_cast<std::uint64_t>(timeout)));
}

// How many programs there are, and what is to be known of them.
std::string text_of_applications(const Json& session) {
    const std::uint64_t not_blocking = session.value("applications_not_blocking", std::uint64_t{0});
    std::string count = std::to_string(number_at(session, "applications"));
    if (not_blocking == 0) return count;
    return fmt::format(
        "{}; {} of them discard{} events, as they do not allow blocking: start them with "
        "LEAT_ALLOW_BLOCKING=1",
        count, not_blocking, not_blocking == 1 ? "s" : "");
}

// Nothing if the daemon's default holds.
std::string text_of_periods(const Json& channel) {
    std::string text;
    for (const auto& [what, key] : {std::pair{"read", "read_period_us"}, {"switch", "switch_period_us"}})
        if (const std::uint64_t period = channel.value(key, std::uint64_t{0}); period != 0)
            text += fmt::format("    {:<10} at least every {}\n", what, period_for_people(period));
    return text;
}

std::string text_of_files(const Json& channel) {
    const std::uint64_t count = number_at(channel, "tracefile_count");
    return fmt::format("    files      of {} at most, {} of each stream\n",
                       size_for_people(number_at(channel, "tracefile_size")),
                       count == 0 ? "all" : fmt::format("the newest {}", count));
}

std::string text_of_channel(const Json& channel) {
    std::string text = fmt::format("  channel {}{}\n", quoted_member(channel, "name"),
                                   channel.at("enabled").get<bool>() ? "" : " (disabled)");
    text += fmt::format("    rings      {} for each CPU, buffers {}, mode {}, header {}\n",
                        size_for_people(number_at(channel, "ring_size")), text_at(channel, "buffers"),
                        text_of_mode(channel), text_at(channel, "header"));
    text += text_of_periods(channel);
    if (number_at(channel, "tracefile_size") != 0) text += text_of_files(channel);
    if (!channel.at("contexts").empty()) text += fmt::format("    contexts   {}\n", join(channel.at("contexts")));
    for (const Json& rule : channel.at("rules")) text += fmt::format("    events     {}\n", text_of_rule(rule));
    text +=
        fmt::format("    recorded   {}, {}\n", number_at(channel, "events"), text_of_reasons(channel.at("discarded")));
    return text;
}

// Nothing if processes of any id are recorded.
std::string text_of_tracked(const Json& tracked) {
    std::string text;
    for (const char* const key : {"vpid", "vuid", "vgid"}) {
        const Json& ids = tracked.at(key);
        if (ids != "all") text += fmt::format("  only {}  {}\n", key, ids.empty() ? "none" : join(ids));
    }
    return text;
}

std::string text_of_conflict(const Json& conflict) {
    std::string text = fmt::format("  conflict   {} in channel {}: {}\n", text_at(conflict, "event"),
                                   text_at(conflict, "channel"), text_at(conflict, "difference"));
    for (const Json& program : conflict.at("programs"))
        text += fmt::format("    program  {} ({})\n", text_at(program, "name"), number_at(program, "pid"));
    return text;
}

// Nothing if there are none.
std::string text_of_limits(const Json& session) {
    const session::Limits limits{.duration_us = session.value("duration_us", std::uint64_t{0}),
                                 .max_size = session.value("max_size", std::uint64_t{0})};
    std::string text;
    if (limits.duration_us != 0) text += "  duration   " + period_for_people(limits.duration_us) + "\n";
    if (limits.max_size != 0)
        text += fmt::format("  max-size   {}{}\n", size_for_people(limits.max_size),
                            session.value("snapshot", false) ? " for each snapshot"
                                                             : ", has " + size_for_people(number_at(session, "bytes")));
    const std::string stopped_by = session.value("stopped_by", "");
    if (!stopped_by.empty()) text += fmt::format("  stopped    by its {}\n", printable(stopped_by));
    return text;
}

std::string heading_of(const Json& session) {
    return fmt::format("{} ({}{})", quoted_member(session, "name"), text_at(session, "state"),
                       session.at("current").get<bool>() ? ", current" : "");
}

std::string text_of_refused(const Json& refused) {
    const std::uint64_t traces = number_at(refused, "traces");
    const auto events = refused.value("events", std::uint64_t{0});
    std::string what;
    if (traces != 0) what += fmt::format("{} traces", traces);
    if (events != 0) what += fmt::format("{}{} events", traces != 0 ? ", " : "", events);
    return what.empty() ? what : fmt::format("  refused    {}: {}\n", what, text_at(refused, "reason"));
}

}  // namespace

std::string join(const Json& list) {
    std::string text;
    for (const Json& item : list) {
        if (!text.empty()) text += ", ";
        text += item.is_string() ? printable(item.get<std::string>()) : std::to_string(item.get<std::int64_t>());
    }
    return text;
}

std::string text_of_counts(const Json& answer) {
    if (!answer.contains("events")) return {};
    std::uint64_t discarded = 0;
    std::string channels;
    for (const auto& [name, reasons] : answer.at("discarded").items()) {
        if (sum_of(reasons) == 0) continue;
        discarded += sum_of(reasons);
        channels += fmt::format("\n  channel {}: {}", quoted(name), text_of_reasons(reasons));
    }
    if (!answer.contains("snapshots"))
        return fmt::format(": {} events, {} discarded{}", number_at(answer, "events"), discarded, channels);
    const std::uint64_t snapshots = number_at(answer, "snapshots");
    return fmt::format(": {} snapshot{}, {} events discarded{}", snapshots, snapshots == 1 ? "" : "s", discarded,
                       channels);
}

std::string text_of_relay(const Json& place) {
    return place.contains("relay") ? " and " + text_at(place, "relay") : std::string();
}

std::string text_of_snapshot_place(const std::string& directory, const std::string& relay) {
    if (relay.empty()) return "see it with: leat view " + shell_word(directory);
    return fmt::format("it is at relay {}, in {} below its output directory", relay, directory);
}

std::string text_of_sessions(const Json& sessions) {
    if (sessions.empty()) return "no session: leat create NAME makes one\n";
    std::string text;
    for (const Json& session : sessions)
        text += fmt::format("{}: {}{}\n", heading_of(session), text_at(session, "output"), text_of_relay(session));
    return text;
}

std::string text_of_session(const Json& session) {
    std::string text = fmt::format("session {}\n", heading_of(session));
    text += fmt::format("  output     {}{}\n", text_at(session, "output"), text_of_relay(session));
    if (session.value("relay_missed_packets", std::uint64_t{0}) != 0)
        text += fmt::format("  missed     {} packets by {}: they are in the directory\n",
                            number_at(session, "relay_missed_packets"), text_at(session, "relay"));
    if (session.contains("memory_directory"))
        text += fmt::format("  rings in   {}\n", text_at(session, "memory_directory"));
    text += text_of_snapshots(session);
    text += text_of_limits(session);
    text += fmt::format("  programs   {}\n", text_of_applications(session));
    text += fmt::format("  memory     {}\n", size_for_people(number_at(session, "memory")));
    text += text_of_refused(session.at("refused"));
    text += text_of_tracked(session.at("tracked"));
    for (const Json& channel : session.at("channels")) text += text_of_channel(channel);
    for (const Json& conflict : session.at("conflicts")) text += text_of_conflict(conflict);
    return text;
}

std::string text_of_descriptors(const Json& descriptors) {
    return fmt::format("daemon\n  files      {} open of {}\n", number_at(descriptors, "open"),
                       number_at(descriptors, "limit"));
}

std::string text_of_programs(const Json& programs) {
    if (programs.empty()) return "no program that can be traced\n";
    std::string text;
    for (const Json& program : programs) {
        text += fmt::format("{} {} (user {}, {} bits)\n", number_at(program, "pid"), text_at(program, "name"),
                            number_at(program, "uid"), number_at(program, "bits"));
        for (const Json& event : program.at("events"))
            text += fmt::format("  {}\n", printable(event.get<std::string>()));
    }
    return text;
}

}  // namespace leat::cli
