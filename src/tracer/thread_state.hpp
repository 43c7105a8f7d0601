// What the tracer keeps for each thread: contexts ready to copy, and the ring of a thread without rseq.
#pragma once

#include <stdint.h>

#include "ring/ring_format.hpp"
#include "tracer/contexts.hpp"
#include "tracer/process_page.hpp"
#include "wire/app/control_format.hpp"

namespace leat::tracer {

struct Channel;

// What a thread keeps for a channel, in three stages:
//
//     nothing             filled_key is another    all is asked for: process, thread, name
//     filled in           filled_key is the key    careful_record.cpp writes, and sees to what is in the way
//     goes straight       straight_key() is the key write_ARCH.S writes without a further question
//
// A key is the generation of the process and the number of the channel: a child of a fork, or a thread whose contexts
// may have changed, begins anew.
inline constexpr uint64_t kNoKey = ~uint64_t{0};  // no channel has a number of all ones
struct ThreadChannel {
    RoomyWriter writer;
    uint64_t filled_key = kNoKey;
    const Channel* channel;
    ring::RingHeader* ring;  // owned; threads without rseq only
    uint64_t claim_again;    // ns: no ring was free, and before this time nobody looks again

    [[nodiscard]] uint64_t straight_key() const { return writer.base.owners.ready_key; }
    void set_straight_key(uint64_t key) { writer.base.owners.ready_key = key; }
    // How a word (wire/app/control_format.hpp) asks for one record of this channel, and nothing else:
    //
    //     others          none of these bits: other lanes, more than one action
    //     second_list     whether the action is of the second list
    //     actions         where the entry has that of the first list
    void note_lane(uint32_t lane);
};

// Channels that a thread writes to by turns without asking for everything anew. More would take too much of the 1.6 KiB
// that glibc has for the static thread-local storage of all libraries that are loaded later.
inline constexpr uint32_t kThreadChannels = 3;

// Read by the fast path at every event, and by signal handlers at any time. The first channel is the one that the fast
// path looks at.
struct ThreadState {
    ThreadChannel channels[kThreadChannels];
    uint32_t generation;  // of the process that `tid` was asked for in; 0: never
    int32_t tid;
    uint32_t is_shared;    // see shared_thread.hpp
    uint32_t is_writing;   // into a ring of its own: keeps this thread's signal handlers out
    uint32_t is_filling;   // `channels`: signal handlers leave them as they are
    uint32_t last_filled;  // of `channels`: the next one is displaced next
    uint32_t misses;       // events of others than the first channel
    // ns, by each daemon's clock: when this thread last wrote, or showed that it is itself; see thread_identity.hpp
    int64_t last_write[wire::kLanes];
    uint64_t refreshed;  // ns: when a channel was last filled in
};

// Initial-exec: reached without a call that might allocate, so also from a signal handler.
extern constinit thread_local __attribute__((tls_model("initial-exec"))) ThreadState thread_state;

// Of the generation as it is now. In a new child, whose generation is 0, it is nobody's.
inline uint64_t channel_key(uint32_t channel_number) {
    // Relaxed: where another thread has begun a new generation (somebody has a new name), this one may notice an event
    // later.
    return __atomic_load_n(&process_page->generation, __ATOMIC_RELAXED) | channel_number;
}

// What the thread keeps for a channel that is filled in; nullptr: it is not.
inline ThreadChannel* find_filled(const Channel& channel, uint64_t key) {
    for (ThreadChannel& mine : thread_state.channels)
        if (mine.filled_key == key && mine.channel == &channel) return &mine;
    return nullptr;
}

// Fills in what this thread keeps for the channel; `now`: ns; `generation`: of the process, before the task was asked
// for. Only for the task that owns the thread, and while is_filling is set. Async-signal-safe; preserves errno.
ThreadChannel& refresh_thread_state(const Channel& channel, uint32_t generation, const Task& task, uint64_t now);

// Each channel is filled in anew by its next event. Call it while is_filling is set.
void forget_contexts();

// What is filled in is right: the next events may go straight to the CPU's ring, unless something speaks against it.
// Call it while is_filling is set.
void go_straight_if_possible(ThreadChannel& mine);

// An event came to `mine`, which is not the first of the thread's channels. Now and then it becomes that: the first may
// be one of a session that is long gone. Returns where it is now. Call it while is_filling is set.
ThreadChannel& note_miss(ThreadChannel& mine);

// The next event of each channel is looked at with care.
void do_not_go_straight();

}  // namespace leat::tracer
