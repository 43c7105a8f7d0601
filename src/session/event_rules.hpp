#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace leat::session {

// `*` stands for any text, anywhere and several times; `\*` for itself; nothing else is special ([LTTng-2.13],
// lttng-event-rule(7)).
[[nodiscard]] bool matches_pattern(std::string_view pattern, std::string_view text);

// The number of a log level by LTTng's name, with or without "TRACE_", in any case; or by number, 0 to 14.
Result<int> parse_log_level(std::string_view name);

// Which events a channel records.
struct EventRules {
    std::vector<std::string> patterns{"*"};  // on "provider:name"; one must match
    std::vector<std::string> exclusions{};   // none may match
    std::optional<int> log_level{};          // only events at least as severe: with this number or a lower one

    [[nodiscard]] bool matches(std::string_view event_name, int event_log_level) const;
};

}  // namespace leat::session
