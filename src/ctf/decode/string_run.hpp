#pragma once

#include <cstdint>
#include <span>

#include "ctf/decode/bit_reader.hpp"
#include "ctf/decode/event_layout.hpp"
#include "ctf/record/string_size.hpp"

namespace leat::ctf {

constexpr std::uint64_t kBeyond = ~std::uint64_t{0};  // any packet's end

// Where the last of these runs ends, if what is in front of the first string ends at `position`. kBeyond: a string does
// not end in the packet.
[[nodiscard, gnu::always_inline]] inline std::uint64_t end_behind_strings(const BitReader& packet,
                                                                          std::uint64_t position,
                                                                          std::span<const PlainRun> runs) {
    for (const PlainRun& run : runs) {
        const std::uint64_t begin = aligned(position, 8);
        if (begin > packet.end()) return kBeyond;
        const std::uint64_t size = string_size(packet.at(begin), (packet.end() - begin) / 8);
        if (size == 0) return kBeyond;
        position = run.end_after(begin + size * 8);
    }
    return position;
}

}  // namespace leat::ctf
