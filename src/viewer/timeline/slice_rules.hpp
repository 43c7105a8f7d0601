#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "viewer/filter/event_expression.hpp"

namespace leat::viewer {

// What an event is on a time line.
enum class Phase : std::uint8_t { kInstant, kBegin, kEnd };

// Which two events are the begin and the end of a slice of time. Without a key they nest within a thread, as calls do;
// with one, they belong together by its value, whatever thread they are of.
struct SliceRule {
    std::string from{};  // patterns of names
    std::string to{};
    std::string title{};
    std::optional<FilterExpression> key{};

    // "FROM,TO" or "FROM,TO,KEY": the title is that of FROM.
    static Result<SliceRule> parse(std::string_view text);
};

// What a name is by the rules that people expect: "NAME_begin" and "NAME_end", "NAME_entry" and "NAME_exit", each also
// with
// ":" in front; "syscall_entry_NAME" and "syscall_exit_NAME". The title is NAME.
struct NamedPhase {
    Phase phase = Phase::kInstant;
    std::string_view title{};
};
[[nodiscard]] NamedPhase phase_of_name(std::string_view name);

}  // namespace leat::viewer
