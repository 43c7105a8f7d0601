// Everything but the common case of writing a record.
#pragma once

#include <stddef.h>

#include "leat/abi.h"
#include "ring/ring_format.hpp"
#include "tracer/channel.hpp"

namespace leat::tracer {

// A staged payload, with LEAT_STAGE_HEADROOM bytes of room in front of it.
struct Payload {
    char* bytes;
    uint64_t size;
};

// The first event of a thread, after a fork or after a pause; a child that runs on its parent's thread; a thread
// without rseq; a large record; a clock that is not the TSC; a ring that is full, or whose consumer wants to be woken.
// Writes the record, or counts it. Any thread; async-signal-safe; preserves errno.
void write_with_care(const leat_tracepoint& tracepoint, const Binding& binding, Payload payload);

// A CPU's ring that has no room for a record, and whose consumer knows: counts the event. False: write it with care.
// Quick, as a program that is faster than its consumer comes here with every event. Any thread; async-signal-safe.
bool count_if_full(const Channel& channel, uint64_t record_size);

void count_discarded(const Channel& channel, ring::DiscardReason reason);

}  // namespace leat::tracer
