#include "viewer/timeline/slice_rules.hpp"

#include <array>
#include <utility>

namespace leat::viewer {
namespace {

struct Ending {
    std::string_view text;
    Phase phase;
};
constexpr std::array kEndings{Ending{"begin", Phase::kBegin}, Ending{"end", Phase::kEnd},
                              Ending{"entry", Phase::kBegin}, Ending{"exit", Phase::kEnd}};
constexpr std::array kBeginnings{Ending{"syscall_entry_", Phase::kBegin}, Ending{"syscall_exit_", Phase::kEnd}};

}  // namespace

Result<SliceRule> SliceRule::parse(std::string_view text) {
    const std::size_t first = text.find(',');
    if (first == 0 || first == std::string_view::npos || first + 1 == text.size() || text[first + 1] == ',')
        return refused("\"{}\" is no slice: use FROM,TO or FROM,TO,KEY", text);
    const std::size_t second = text.find(',', first + 1);
    SliceRule rule{.from = std::string(text.substr(0, first)),
                   .to = std::string(text.substr(first + 1, second - first - 1)),
                   .title = std::string(text.substr(0, first))};
    if (second != std::string_view::npos)
        rule.key = LEAT_TRY(parse_filter(text.substr(second + 1), "key of the slice"));
    return rule;
}

NamedPhase phase_of_name(std::string_view name) {
    for (const Ending& beginning : kBeginnings)
        if (name.starts_with(beginning.text) && name.size() > beginning.text.size())
            return {beginning.phase, name.substr(beginning.text.size())};
    for (const Ending& ending : kEndings) {
        if (!name.ends_with(ending.text) || name.size() < ending.text.size() + 2) continue;
        const char separator = name[name.size() - ending.text.size() - 1];
        if (separator == '_' || separator == ':')
            return {ending.phase, name.substr(0, name.size() - ending.text.size() - 1)};
    }
    return {Phase::kInstant, name};
}

}  // namespace leat::viewer
