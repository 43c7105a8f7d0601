// The event that writers write: what follows from its first two fields can be checked byte by byte.
#pragma once

#include <sys/types.h>

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

// In a library of its own, as most tracepoints of real programs are; nothing in the program itself knows of tracing.
void emit_step(std::uint32_t incarnation, pid_t pid, std::uint64_t counter, const std::uint8_t* tail);
[[nodiscard]] bool is_traced();

}  // namespace leat::torture
