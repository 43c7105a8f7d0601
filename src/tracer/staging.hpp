// Buffers of the process for payloads that are too large for a stack.
#pragma once

#include <stdint.h>

#include "ring/ring_format.hpp"

namespace leat::tracer {

// Makes room for the buffers. Called before the first channel is attached; does nothing when called again. False: there
// is no memory.
bool make_staging();

// A buffer for `size` bytes and their slack; nullptr: all are lent, none is that large, or no channel was attached.
// Never waits: a signal handler may have interrupted every borrower. Any thread; async-signal-safe.
char* lend_staging(uint64_t size);
// Why there is none.
inline ring::DiscardReason why_not_lent(uint64_t size) {
    return size > ring::kMaxRecordSize ? ring::DiscardReason::kTooLarge : ring::DiscardReason::kInterrupted;
}
// Takes back what lend_staging() gave. Any thread; async-signal-safe.
void return_staging(const void* buffer);

}  // namespace leat::tracer
