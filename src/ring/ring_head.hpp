#pragma once

#include <cstdint>

#include "base/result.hpp"
#include "ring/ring_format.hpp"

namespace leat::ring {

// What the writers of a ring have committed; as untrusted as all that they write.
struct RingHead {
    std::uint64_t position;
    std::uint64_t timestamp;  // ns; of the last record below it
    std::uint64_t records;    // below it, since the start
};

// Writers move what a reader looks at now and then, and it looks again; one that always does is none of ours.
inline constexpr int kMaxLooks = 10'000;

// ns: no clock gets that far, and readers who add the Unix epoch can still say what comes of it.
inline constexpr std::uint64_t kMaxTime = std::uint64_t{3} << 61;

// Of a ring in a file that somebody has shortened.
inline tl::unexpected<Error> file_was_cut_off() { return corrupt("the ring's file was truncated"); }

// While writers go on. All bytes below the position are visible to the caller from then on. Fails when the head does
// not hold still, or its time cannot be.
Result<RingHead> look_at_head(RingHeader& header);

}  // namespace leat::ring
