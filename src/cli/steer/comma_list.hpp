#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace leat::cli {

// The parts between commas. `\,` is a comma that separates nothing; a backslash before anything else stays, as patterns
// have their own (`\*`).
std::vector<std::string> split_at_commas(std::string_view text);

// The parts of all of them.
std::vector<std::string> split_at_commas(const std::vector<std::string>& texts);

}  // namespace leat::cli
