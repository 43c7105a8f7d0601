// What the tracer keeps for each thread: contexts ready to copy, and the ring of a thread without rseq.
#pragma once

#include <stdint.h>

#include "ring/ring_format.hpp"
#include "wire/app_protocol.hpp"

namespace leat::tracer {

struct Channel;

inline constexpr uint32_t kContextBlockSize = 32;

struct ThreadState {
    // Records of this channel may go straight to the CPU's ring: all below is filled in. nullptr: something is to be
    // seen to first, as always in a thread without rseq.
    const Channel* straight_to;
    uint32_t generation;    // of the process that this was filled in for; 0: not filled in
    uint32_t context_mask;  // what context_block holds
    uint32_t context_size;  // bytes
    int32_t tid;
    alignas(16) char context_block[kContextBlockSize];  // the contexts, at its end: two 16-byte moves put them in front
                                                        // of a payload
    ring::RingHeader* ring;                             // owned; threads without rseq only
    uint32_t is_writing;                                // into `ring`: keeps this thread's signal handlers out
    uint32_t is_borrowed;                               // a vfork child runs on this thread: see borrowed_thread.hpp
};
static_assert(wire::kMaxContextSize <= kContextBlockSize);

// Initial-exec: reached without a call that might allocate, so also from a signal handler.
extern constinit thread_local __attribute__((tls_model("initial-exec"))) ThreadState thread_state;

// Fills in `thread_state` for this thread, process generation and channel. Async-signal-safe; preserves errno.
void refresh_thread_state(const Channel& channel);

}  // namespace leat::tracer
