#include "session/event_rules.hpp"

#include <algorithm>
#include <charconv>

#include "ctf/model/log_level.hpp"

namespace leat::session {
namespace {

// One element of a pattern: a star, or one character.
struct Element {
    bool is_star;
    char character;
    std::size_t size;
};

Element element_at(std::string_view pattern, std::size_t at) {
    if (pattern[at] == '\\' && at + 1 < pattern.size()) return {false, pattern[at + 1], 2};
    return {pattern[at] == '*', pattern[at], 1};
}

// "EMERG, ALERT, ..."
std::string short_names() {
    std::string names;
    for (const std::string_view name : ctf::kLogLevels)
        names.append(names.empty() ? "" : ", ").append(name.substr(ctf::kLogLevelPrefix.size()));
    return names;
}

}  // namespace

// Backtracks only to the last star: at worst, the time grows with text length times pattern length.
bool matches_pattern(std::string_view pattern, std::string_view text) {
    std::size_t p = 0;
    std::size_t t = 0;
    std::optional<std::size_t> behind_star;
    std::size_t star_text = 0;
    while (t < text.size()) {
        const std::optional<Element> element =
            p < pattern.size() ? std::optional(element_at(pattern, p)) : std::nullopt;
        if (element && element->is_star) {
            p += element->size;
            behind_star = p;
            star_text = t;
        } else if (element && element->character == text[t]) {
            p += element->size;
            ++t;
        } else if (behind_star) {
            p = *behind_star;
            t = ++star_text;
        } else {
            return false;
        }
    }
    while (p < pattern.size() && element_at(pattern, p).is_star) ++p;
    return p == pattern.size();
}

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

}  // namespace leat::session
