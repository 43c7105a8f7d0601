// Reads the last values of a program's sticky events from its control memory: every byte is hostile. Format:
// docs/formats/sticky-values.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.hpp"
#include "wire/app/control_format.hpp"

namespace leat::wire {

// Nothing is known of the payload but its size.
struct StickyValue {
    std::uint32_t tracepoint;  // of the file
    std::uint32_t order;
    std::vector<std::byte> payload{};
};

struct StickyValues {
    std::vector<StickyValue> values{};  // in the order in which they were set
    std::uint64_t not_kept = 0;         // the program had no room for them, so far
    std::uint64_t unreadable = 0;       // make no sense, or change all the time
};

// The values as they are at some time during the call, each whole. The file is the program's, which may write there
// meanwhile. Any thread.
Result<StickyValues> read_sticky_values(int fd, const ControlLayout& layout);

}  // namespace leat::wire
