#pragma once

#include <cstdint>

namespace leat::ctf {

// Where an event record lies in its packet, and when it happened. The rest of it is decoded from there, or not.
struct EventPlace {
    std::uint64_t begin = 0;    // bits from the begin of the packet: of its header
    std::uint64_t payload = 0;  // likewise: of what follows the header
    std::uint64_t cycles = 0;   // value of the stream's clock; 0 if it has none
    std::int64_t time_ns = 0;   // since the clock's origin; 0 if there is none
    std::uint32_t event = 0;    // into DecodePlan::events
};

}  // namespace leat::ctf
