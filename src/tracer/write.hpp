// Where leat_write and its kind go with what the sequence did not write: written with care, or counted. `outcome`: why.
#pragma once

#include <stddef.h>

#include "leat/abi.h"
#include "ring/rseq_writer.hpp"

// Any thread; async-signal-safe; preserve errno. They are called by write_ARCH.S, with the arguments of its functions.
extern "C" {
void leat_payload_not_written(const leat_tracepoint* tracepoint, const void* ip, leat::ring::WriteOutcome outcome,
                              const void* payload, size_t size);
// `least_size`: with an empty text.
void leat_text_not_written(const leat_tracepoint* tracepoint, const void* ip, leat::ring::WriteOutcome outcome,
                           const leat::ring::TextPayload* payload, size_t least_size);
void leat_words_not_written(const leat_tracepoint* tracepoint, const void* ip, leat::ring::WriteOutcome outcome,
                            const void* unused, size_t size, leat::ring::PayloadWords payload);
void leat_text_words_not_written(const leat_tracepoint* tracepoint, const void* ip, leat::ring::WriteOutcome outcome,
                                 const char* text, size_t least_size, size_t head_size, leat::ring::PayloadWords head,
                                 leat::ring::PayloadWords tail);
}
