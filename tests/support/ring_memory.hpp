// The rings of a set as memory, for those who write there.
#pragma once

#include <cstdint>
#include <vector>

#include "ring/ring_set.hpp"

namespace leat::test {

// Where the records of a ring lie.
inline char* records_of(const ring::RingSet& set, std::uint32_t ring) {
    return reinterpret_cast<char*>(&set.ring(ring)) + ring::kPageSize;  // NOLINT(*-reinterpret-cast)
}

// All rings of a set, as RingMap wants them.
inline std::vector<ring::RingHeader*> all_rings(const ring::RingSet& set) {
    std::vector<ring::RingHeader*> rings;
    for (std::uint32_t index = 0; index < set.geometry().ring_count(); ++index) rings.push_back(&set.ring(index));
    return rings;
}

}  // namespace leat::test
