// The event that writers write. Its first two fields determine the others, so it can be checked byte by byte.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>

namespace leat::torture {

inline constexpr char kStepEvent[] = "torture:step";
inline constexpr std::uint8_t kLongestTail = 100;

// Most records are as small as possible. Some take several of the writer's 32-byte blocks.
constexpr std::uint8_t tail_length(std::uint64_t counter) {
    return counter % 8 == 0 ? static_cast<std::uint8_t>(counter / 8 % (kLongestTail + 1)) : 0;
}

constexpr std::uint8_t tail_byte(std::uint64_t counter) { return static_cast<std::uint8_t>(counter * 37 + 11); }

using Tail = std::array<std::uint8_t, kLongestTail>;

// It is in a library, as most tracepoints of real programs are. The program itself knows nothing of tracing.
void emit_step(std::uint32_t incarnation, pid_t pid, std::uint64_t counter, const std::uint8_t* tail);
[[nodiscard]] bool is_traced();

}  // namespace leat::torture
