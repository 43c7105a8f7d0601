// Where the trace of a session goes, and where its rings are: options of create and load.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/steer/verb.hpp"

namespace leat::cli {

struct PlaceOptions : VerbOptions {
    std::vector<std::string> outputs{};
    std::string live{};
    std::string shm_path{};

    [[nodiscard]] bool are_given() const { return !outputs.empty() || !live.empty(); }
};

// And no directory.
bool is_url(std::string_view place);

// The daemon works in another directory.
Outcome<std::string> absolute_path(const std::string& path);

// Puts the members that say so into a request, or into the definition of a session.
Outcome<void> put_places(const PlaceOptions& options, Json& members);

void add_place_options(CLI::App& command, PlaceOptions& options);

}  // namespace leat::cli
