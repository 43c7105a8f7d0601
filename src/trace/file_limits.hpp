// How the files of a stream roll, in a directory and at a relay: [LTTng-2.13], "Trace directories".
//
//     no limits       CHANNEL_RING
//     a size          CHANNEL_RING_0, CHANNEL_RING_1, ...
//     and a count     the same, and after the last one CHANNEL_RING_0 again: a new file in the place of the oldest
#pragma once

#include <cstdint>
#include <string>

namespace leat::trace {

struct FileLimits {
    // Smaller files would hold hardly a packet.
    static constexpr std::uint64_t kSmallestSize = 4096;

    std::uint64_t size = 0;   // bytes of one file; 0: one file takes all
    std::uint64_t count = 0;  // files that are kept, of those that have a size; 0: all

    // Of the file that is the stream's `number`th, from 0.
    [[nodiscard]] std::string file_name(const std::string& stream, std::uint64_t number) const {
        if (size == 0) return stream;
        return stream + "_" + std::to_string(count == 0 ? number : number % count);
    }

    // Whether a packet goes to the next file, as this one has `used` bytes. A packet is never split over two files. One
    // that is larger than the limit has a file of its own.
    [[nodiscard]] bool is_full(std::uint64_t used, std::uint64_t packet) const {
        return size != 0 && used != 0 && used + packet > size;
    }

    // Whether this file takes the place of an older one.
    [[nodiscard]] bool replaces(std::uint64_t number) const { return size != 0 && count != 0 && number >= count; }

    bool operator==(const FileLimits&) const = default;
};

}  // namespace leat::trace
