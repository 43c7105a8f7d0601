#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ctf/model/trace_class.hpp"

namespace leat::viewer {

// The metadata of a directory.
struct DirectoryMetadata {
    std::optional<ctf::Uuid> uuid;
    std::string_view text;
};

// Chooses for each directory the one by whose metadata its packets are read. Those of a chunk of a trace go up to the
// chunk's end, so the longest of the trace's UUID serve all of which the text is a beginning of theirs. Other text, as
// after a session's metadata were made anew, is of another trace of the same UUID.
std::vector<std::size_t> choose_metadata(std::span<const DirectoryMetadata> directories);

}  // namespace leat::viewer
