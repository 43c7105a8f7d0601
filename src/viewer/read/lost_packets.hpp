#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <vector>

namespace leat::viewer {

// What the index of a stream file names and the file does not have.
struct LostPackets {
    // By which somebody who writes it can be seen.
    struct IndexState {
        dev_t device = 0;
        ino_t inode = 0;
        off_t size = 0;
        bool operator==(const IndexState&) const = default;
    };

    // The tracer's numbers of those that a relay did not get, ascending.
    std::vector<std::uint64_t> numbers{};
    // How many lie behind the end of the file, which is that of a packet: it was cut off there.
    std::uint64_t cut_off = 0;
    IndexState index{};
};

// As far as the index can be read. Without one there is nothing. `size`: of the file, as it was opened; if it has grown
// since, nothing was cut off.
LostPackets lost_packets(const std::filesystem::path& stream_file, std::uint64_t size);

}  // namespace leat::viewer
