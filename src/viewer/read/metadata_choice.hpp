#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ctf/model/trace_class.hpp"

namespace leat::viewer {

// How many streams and events there are.
std::size_t count_declarations(const ctf::TraceClass& trace_class);

// Chooses for each directory, of which these are the metadata, the one by whose metadata its packets are read. Those of
// a chunk of a trace go up to the chunk's end, so those that declare most, of the trace's UUID, serve all that declare
// the same of it. A directory that does not is a trace of its own, and is read by its own.
//
// Clocks may differ, as after a session's metadata were regenerated: one of them counts, as in babeltrace2.
std::vector<std::size_t> choose_metadata(std::span<const ctf::TraceClass* const> directories);

}  // namespace leat::viewer
