#include "cli/steer/comma_list.hpp"

namespace leat::cli {

std::vector<std::string> split_at_commas(std::string_view text) {
    std::vector<std::string> parts(1);
    for (std::size_t at = 0; at < text.size(); ++at) {
        if (text[at] == ',') {
            parts.emplace_back();
        } else if (text[at] == '\\' && at + 1 < text.size()) {
            const char next = text[++at];
            if (next != ',') parts.back() += '\\';
            parts.back() += next;
        } else {
            parts.back() += text[at];
        }
    }
    return parts;
}

std::vector<std::string> split_at_commas(const std::vector<std::string>& texts) {
    std::vector<std::string> parts;
    for (const std::string& text : texts)
        for (std::string& part : split_at_commas(text)) parts.push_back(std::move(part));
    return parts;
}

}  // namespace leat::cli
