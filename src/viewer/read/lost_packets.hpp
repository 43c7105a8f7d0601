#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace leat::viewer {

// The tracer's numbers of the packets that a relay has not got, as the index of this stream file says, as far as it can
// be read; ascending. None if there is no index.
std::vector<std::uint64_t> lost_packets(const std::filesystem::path& stream_file);

}  // namespace leat::viewer
