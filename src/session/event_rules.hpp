#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace leat::session {

// The number of a log level by LTTng's name, with or without "TRACE_", in any case; or by number, 0 to 14.
Result<int> parse_log_level(std::string_view name);

// What becomes of an event whose name is known with another description.
enum class OnConflict : std::uint8_t {
    kRefuse,   // it is not recorded
    kVersion,  // it gets an id of its own
};

// Which events a channel records: those that match any of its rules.
struct EventRule {
    std::string pattern{"*"};               // on "provider:name"
    std::vector<std::string> exclusions{};  // none may match
    std::optional<int> log_level{};         // only events at least as severe: with this number or a lower one
    bool is_log_level_only = false;         // only events of just that level
    OnConflict on_conflict = OnConflict::kRefuse;
    bool is_enabled = true;

    [[nodiscard]] bool matches(std::string_view event_name, int event_log_level) const;
    // Whether it asks for the same events.
    [[nodiscard]] bool is_like(const EventRule& other) const;
};

// One rule for each pattern, all with these exclusions and this log level.
std::vector<EventRule> make_rules(const std::vector<std::string>& patterns, const std::vector<std::string>& exclusions,
                                  std::optional<int> log_level);

// The first enabled rule that matches; null: the event is not recorded.
const EventRule* find_rule(std::span<const EventRule> rules, std::string_view event_name, int event_log_level);
// A version, if any enabled rule that matches says so.
OnConflict on_conflict(std::span<const EventRule> rules, std::string_view event_name, int event_log_level);

}  // namespace leat::session
