// What the tracer keeps for each thread: contexts ready to copy, and the ring of a thread without rseq.
#pragma once

#include <stdint.h>

#include "ring/ring_format.hpp"
#include "wire/app/app_protocol.hpp"

namespace leat::tracer {

struct Channel;
struct Task;

inline constexpr uint32_t kContextBlockSize = 32;

// The contexts of a record, at the end of the block: two 16-byte moves put them in front of a payload.
struct ContextBlock {
    alignas(16) char bytes[kContextBlockSize];
    uint32_t size;  // of the contexts
};
static_assert(wire::kMaxContextSize <= kContextBlockSize);

// Read by the fast path at every event, and by signal handlers at any time. Three stages, each good for one channel and
// one generation of the process:
//
//     generation 0, or another one    all is asked for: process, thread, name
//     filled in                       careful_writer.cpp writes, and sees to what is in the way
//     straight_to is the channel      write.cpp writes without a further question
struct ThreadState {
    // Records of this channel may go straight to the CPU's ring: all below is filled in. nullptr: something is to be
    // seen to first, as always in a thread without rseq, and where threads may be shared unseen.
    const Channel* straight_to;
    uint32_t generation;    // of the process that this was filled in for; 0: not filled in
    uint32_t context_mask;  // what `contexts` holds
    int32_t tid;
    uint32_t is_shared;  // see shared_thread.hpp
    ContextBlock contexts;
    int64_t last_write;      // ns: when this thread last wrote, or showed that it is itself; see thread_identity.hpp
    uint64_t refreshed;      // ns: when all this was filled in
    ring::RingHeader* ring;  // owned; threads without rseq only
    uint64_t claim_again;    // ns: no ring was free, and before this time nobody looks again
    uint32_t is_writing;     // into `ring`: keeps this thread's signal handlers out
};

// Initial-exec: reached without a call that might allocate, so also from a signal handler.
extern constinit thread_local __attribute__((tls_model("initial-exec"))) ThreadState thread_state;

// The contexts of the channel's records, for one task. Async-signal-safe; preserves errno.
ContextBlock make_contexts(uint32_t context_mask, const Task& task);

// Fills in `thread_state` for this process generation and channel; `now`: ns. Only for the task that owns the thread.
// Nothing goes straight until go_straight_if_possible() says so.
// Async-signal-safe; preserves errno.
void refresh_thread_state(const Channel& channel, const Task& task, uint64_t now);

// What is filled in is right: the next events may go straight to the CPU's ring, unless something speaks against it.
void go_straight_if_possible(const Channel& channel);

}  // namespace leat::tracer
