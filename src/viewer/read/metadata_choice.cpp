#include "viewer/read/metadata_choice.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

namespace leat::viewer {

std::vector<std::size_t> choose_metadata(std::span<const DirectoryMetadata> directories) {
    std::vector<std::size_t> chosen(directories.size());
    std::iota(chosen.begin(), chosen.end(), std::size_t{0});
    std::vector<std::size_t> longest_first = chosen;
    std::ranges::stable_sort(longest_first, std::greater{}, [&](std::size_t i) { return directories[i].text.size(); });
    std::map<ctf::Uuid, std::vector<std::size_t>> longest;  // that are no beginning of another
    for (const std::size_t i : longest_first) {
        const auto& [uuid, text] = directories[i];
        if (!uuid) continue;
        auto& known = longest[*uuid];
        const auto longer =
            std::ranges::find_if(known, [&](std::size_t other) { return directories[other].text.starts_with(text); });
        if (longer != known.end())
            chosen[i] = *longer;
        else
            known.push_back(i);
    }
    return chosen;
}

}  // namespace leat::viewer
