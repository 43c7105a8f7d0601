#include "session/event_rules.hpp"

#include <algorithm>
#include <charconv>

#include "base/pattern.hpp"
#include "ctf/model/log_level.hpp"

namespace leat::session {
namespace {

// "EMERG, ALERT, ..."
std::string short_names() {
    std::string names;
    for (const std::string_view name : ctf::kLogLevels)
        names.append(names.empty() ? "" : ", ").append(name.substr(ctf::kLogLevelPrefix.size()));
    return names;
}

}  // namespace

Result<int> parse_log_level(std::string_view name) {
    int number = -1;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (error == std::errc{} && end == name.data() + name.size() && number >= 0 && number <= 14) return number;

    std::string upper(name);
    std::transform(upper.begin(), upper.end(), upper.begin(), [](unsigned char c) { return std::toupper(c); });
    if (!upper.starts_with(ctf::kLogLevelPrefix)) upper.insert(0, ctf::kLogLevelPrefix);
    const auto* found = std::find(ctf::kLogLevels.begin(), ctf::kLogLevels.end(), upper);
    if (found == ctf::kLogLevels.end())
        return refused("unknown log level \"{}\": use one of {}, or 0 to 14", name, short_names());
    return static_cast<int>(found - ctf::kLogLevels.begin());
}

bool EventRule::matches(std::string_view event_name, int event_log_level) const {
    const auto match = [&](const std::string& glob) { return matches_pattern(glob, event_name); };
    if (log_level && (is_log_level_only ? event_log_level != *log_level : event_log_level > *log_level)) return false;
    return match(pattern) && std::none_of(exclusions.begin(), exclusions.end(), match);
}

bool EventRule::is_like(const EventRule& other) const {
    return pattern == other.pattern && exclusions == other.exclusions && log_level == other.log_level &&
           is_log_level_only == other.is_log_level_only;
}

std::vector<EventRule> make_rules(const std::vector<std::string>& patterns, const std::vector<std::string>& exclusions,
                                  std::optional<int> log_level) {
    std::vector<EventRule> rules;
    rules.reserve(patterns.size());
    for (const std::string& pattern : patterns)
        rules.push_back({.pattern = pattern, .exclusions = exclusions, .log_level = log_level});
    return rules;
}

const EventRule* find_rule(std::span<const EventRule> rules, std::string_view event_name, int event_log_level) {
    const auto found = std::ranges::find_if(
        rules, [&](const EventRule& rule) { return rule.is_enabled && rule.matches(event_name, event_log_level); });
    return found == rules.end() ? nullptr : &*found;
}

OnConflict on_conflict(std::span<const EventRule> rules, std::string_view event_name, int event_log_level) {
    const bool has_version = std::ranges::any_of(rules, [&](const EventRule& rule) {
        return rule.on_conflict == OnConflict::kVersion && rule.is_enabled && rule.matches(event_name, event_log_level);
    });
    return has_version ? OnConflict::kVersion : OnConflict::kRefuse;
}

}  // namespace leat::session
