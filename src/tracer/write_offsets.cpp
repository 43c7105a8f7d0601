// The assembler's constants are what C++ says: a struct that changes without them does not compile.
#include "tracer/write_offsets.h"

#include <stddef.h>

#include "leat/abi.h"
#include "tracer/thread_state.hpp"
#include "wire/app/control_format.hpp"

namespace leat::tracer {
namespace {

static_assert(offsetof(ThreadState, channels) == 0 && offsetof(ThreadChannel, writer) == 0);
static_assert(offsetof(RoomyWriter, base) == 0);
static_assert(offsetof(ProcessPage, generation) == 0 && kGenerationShift == 32);
static_assert(kNoKey == static_cast<uint64_t>(NO_KEY));
static_assert(offsetof(leat_tracepoint, word) == TRACEPOINT_WORD);
static_assert(offsetof(wire::ControlEntry, word) == 0 && sizeof(wire::Action) == ACTION_SIZE);
static_assert(offsetof(wire::Action, event_id) == ACTION_ID && offsetof(wire::Action, channel) == ACTION_CHANNEL);
static_assert(sizeof(leat_text_payload) == sizeof(ring::TextPayload) &&
              offsetof(leat_text_payload, tail_size) == offsetof(ring::TextPayload, tail_size));
static_assert(sizeof(leat_words) == sizeof(ring::PayloadWords));

}  // namespace
}  // namespace leat::tracer
