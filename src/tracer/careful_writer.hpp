// Everything but the common case of writing a record.
#pragma once

#include <stddef.h>

#include "ring/rseq_writer.hpp"
#include "wire/app/control_format.hpp"

namespace leat::tracer {

// An event that several channels want; the first one of a thread, after a fork or after a pause; a child that runs on
// its parent's thread; a thread without rseq; a large record; a context that differs from call to call; a clock that is
// not the TSC; a ring that is full, or whose consumer wants to be woken. Writes all records that the word asks for, or
// counts them. `payload` is readable for LEAT_STAGE_SLACK bytes beyond its end; `ip` is in the site. Any thread;
// async-signal-safe; preserves errno.
void write_with_care(const wire::ControlEntry& entry, const void* payload, uint64_t size, const void* ip);

// The same for a payload with a text, which is put together first.
void write_text_with_care(const wire::ControlEntry& entry, const ring::TextPayload& payload, const void* ip);

// The same for a payload in a register.
void write_words_with_care(const wire::ControlEntry& entry, ring::PayloadWords payload, uint64_t size, const void* ip);

// Counts the event in each channel that wants it. Any thread; async-signal-safe.
void count_discarded(const wire::ControlEntry& entry, ring::DiscardReason reason);

}  // namespace leat::tracer
