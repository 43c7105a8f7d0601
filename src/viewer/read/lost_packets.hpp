#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace leat::viewer {

// The tracer's numbers of the packets that a relay did not get, ascending. They come from the index of this stream
// file, as far as that can be read. Without an index there are none.
std::vector<std::uint64_t> lost_packets(const std::filesystem::path& stream_file);

}  // namespace leat::viewer
