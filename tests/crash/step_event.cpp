#include "crash/step_event.hpp"

#include <leat/tracepoint.h>

#define TORTURE_STEP_FIELDS(FIELD)                          \
    FIELD(integer, std::uint32_t, incarnation, incarnation) \
    FIELD(integer, std::int32_t, pid, pid)                  \
    FIELD(integer, std::uint64_t, counter, counter)         \
    FIELD(sequence, std::uint8_t, tail, tail, std::uint8_t, leat::torture::tail_length(counter))

LEAT_TRACEPOINT(torture, step, LEAT_INFO, TORTURE_STEP_FIELDS, std::uint32_t incarnation, pid_t pid,
                std::uint64_t counter, const std::uint8_t* tail);

namespace leat::torture {

void emit_step(std::uint32_t incarnation, pid_t pid, std::uint64_t counter, const std::uint8_t* tail) {
    leat_tracepoint(torture, step, incarnation, pid, counter, tail);
}

bool is_traced() { return leat_enabled(torture, step); }

}  // namespace leat::torture
