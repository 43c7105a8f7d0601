// Contexts of the application: who provides them, and what they say in a record.
//
//     attach_channel()         slot_of("shop:request") -> 3, kept in the channel
//     leat_context_provide()   slot_of("shop:request") -> 3; slot 3 -> the program's leat_context
//     event                    slot 3 -> get() -> tag and value
//
// A name keeps its slot for the life of the process, so an event finds the context without a search.
#pragma once

#include <stdint.h>

#include "leat/context.h"
#include "tracer/contexts.hpp"
#include "wire/app/app_protocol.hpp"

namespace leat::tracer {

struct Channel;

inline constexpr uint32_t kContextSlots = 64;

// The slot of a name, a new one if it has none; kContextSlots: all are taken. Under the AttachLock; async-signal-safe.
uint32_t slot_of(const char* name);

// A writer with room for the contexts of one call, too.
struct CallWriter {
    RoomyWriter roomy;
    char contexts_of_call[wire::kMaxAppContexts * wire::kMaxAppContextSize + 16];  // the last block may begin anywhere
};
static_assert(offsetof(CallWriter, contexts_of_call) == sizeof(RoomyWriter));

// Asks the program for the contexts that the channel's records have. Any thread; async-signal-safe; preserves errno.
void append_app_contexts(CallWriter& writer, const Channel& channel);

}  // namespace leat::tracer
