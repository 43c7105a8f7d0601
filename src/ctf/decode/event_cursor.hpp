#pragma once

#include <cstdint>

#include "ctf/decode/bit_reader.hpp"

namespace leat::ctf {

// Where a decoder is in its packet, and what else each event moves on. A loop over events has a cursor of its own, and
// the decoder goes on from there.
struct EventCursor {
    BitReader reader{};
    std::uint64_t clock = 0;  // after the last timestamp
    bool has_clock = false;
    std::uint64_t fields_left = 0;  // how many more fields the packet may have
};

}  // namespace leat::ctf
