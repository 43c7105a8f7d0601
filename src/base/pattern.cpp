#include "base/pattern.hpp"

#include <cstddef>
#include <optional>

namespace leat {
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

}  // namespace leat
