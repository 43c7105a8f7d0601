// The event that writers write: what follows from its first two fields can be checked byte by byte.
#pragma once

#include <leat/tracepoint.h>

#include <array>
#include <cstdint>

namespace leat::torture {

inline constexpr char kStepEvent[] = "torture:step";
inline constexpr std::uint8_t kLongestTail = 100;

// Most records are as small as can be; some take several of the writer's 32-byte blocks.
constexpr std::uint8_t tail_length(std::uint64_t counter) {
    return counter % 8 == 0 ? static_cast<std::uint8_t>(counter / 8 % (kLongestTail + 1)) : 0;
}

constexpr std::uint8_t tail_byte(std::uint64_t counter) { return static_cast<std::uint8_t>(counter * 37 + 11); }

using Tail = std::array<std::uint8_t, kLongestTail>;

}  // namespace leat::torture

#define TORTURE_STEP_FIELDS(FIELD)                          \
    FIELD(integer, std::uint32_t, incarnation, incarnation) \
    FIELD(integer, std::uint64_t, counter, counter)         \
    FIELD(sequence, std::uint8_t, tail, tail, std::uint8_t, leat::torture::tail_length(counter))

LEAT_TRACEPOINT(torture, step, LEAT_INFO, TORTURE_STEP_FIELDS, std::uint32_t incarnation, std::uint64_t counter,
                const std::uint8_t* tail);
