// When a recording ends by itself.
#pragma once

#include <cstdint>

#include "base/result.hpp"

namespace leat::session {

// Whichever comes first.
struct Limits {
    static constexpr std::uint64_t kShortestUs = 1'000;
    static constexpr std::uint64_t kLongestUs = std::uint64_t{100'000} * 3600 * 1'000'000;
    // Smaller ones would hold hardly more than the headers of a packet from each CPU.
    static constexpr std::uint64_t kSmallestSize = 64U << 10;
    static constexpr std::uint64_t kLargestSize = std::uint64_t{1} << 60;

    std::uint64_t duration_us = 0;  // while it is active, by CLOCK_MONOTONIC; 0: no limit
    std::uint64_t max_size = 0;     // bytes of packets with their headers, in all traces together; 0: no limit

    [[nodiscard]] bool are_any() const { return duration_us != 0 || max_size != 0; }
    [[nodiscard]] Result<void> check() const {
        if (duration_us != 0 && (duration_us < kShortestUs || duration_us > kLongestUs))
            return refused("a duration is from 1ms to 100000h, and microseconds without a unit");
        if (max_size != 0 && (max_size < kSmallestSize || max_size > kLargestSize))
            return refused("a size to stop at is from 64K to 1048576T");
        return {};
    }
};

enum class StoppedBy : std::uint8_t { kNobody, kDuration, kMaxSize };
// As people and scripts read it; of kNobody, "".
inline const char* name_of(StoppedBy by) {
    return by == StoppedBy::kDuration ? "duration" : by == StoppedBy::kMaxSize ? "max-size" : "";
}

}  // namespace leat::session
