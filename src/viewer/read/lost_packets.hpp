#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace leat::viewer {

// What the index of a stream file names and the file does not have.
struct LostPackets {
    // The tracer's numbers of those that a relay did not get, ascending.
    std::vector<std::uint64_t> numbers{};
    // How many lie behind the end of the file, which is that of a packet: it was cut off there.
    std::uint64_t cut_off = 0;
};

// As far as the index can be read. Without one there is nothing.
LostPackets lost_packets(const std::filesystem::path& stream_file);

}  // namespace leat::viewer
