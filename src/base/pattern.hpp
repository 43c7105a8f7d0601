#pragma once

#include <string_view>

namespace leat {

// `*` stands for any text, anywhere and several times; `\*` for itself; nothing else is special ([LTTng-2.13],
// lttng-event-rule(7)).
[[nodiscard]] bool matches_pattern(std::string_view pattern, std::string_view text);

}  // namespace leat
