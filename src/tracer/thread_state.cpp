#include "tracer/thread_state.hpp"

#include <stddef.h>

#include "ring/clock.hpp"
#include "tracer/channel.hpp"
#include "tracer/process_page.hpp"
#include "tracer/thread_identity.hpp"
#include "wire/app/control_format.hpp"

namespace leat::tracer {

constinit thread_local __attribute__((tls_model("initial-exec"))) ThreadState thread_state{};

namespace {

// Where what belongs to the channel goes: where it was, or where nothing is, or in turn.
ThreadChannel& place_for(const Channel& channel) {
    ThreadState& thread = thread_state;
    for (ThreadChannel& mine : thread.channels)
        if (mine.channel == &channel) return mine;
    for (ThreadChannel& mine : thread.channels)
        if (mine.channel == nullptr) return mine;
    thread.last_filled = (thread.last_filled + 1) % kThreadChannels;
    return thread.channels[thread.last_filled];
}

void forget(ThreadChannel& mine) {
    mine.set_straight_key(kNoKey);
    mine.filled_key = kNoKey;
}

void forget_ring(ThreadChannel& mine) {
    mine.ring = nullptr;
    mine.claim_again = 0;
}

}  // namespace

void ThreadChannel::note_lane(uint32_t lane) {
    const uint32_t bit = 8 * lane;
    ring::OwnersPart& part = writer.base.owners;
    part.others = ~(uint32_t{0xff} << bit) | uint32_t{wire::kManyActions} << bit;
    part.second_list = uint32_t{wire::kSecondList} << bit;
    part.actions = offsetof(wire::ControlEntry, first) + lane * sizeof(wire::ControlEntry::first[0]);
}

ThreadChannel& refresh_thread_state(const Channel& channel, uint32_t generation, const Task& task, uint64_t now) {
    ThreadState& thread = thread_state;
    ThreadChannel& mine = place_for(channel);
    // Until all is filled in, a signal handler's event must not go straight. It may come between any two of these
    // lines. The fences are for the compiler alone.
    forget(mine);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    // In a child, the rings are still the parent's. The same thread with other contexts keeps them.
    if (thread.generation != generation || thread.tid != task.tid)
        for (ThreadChannel& channel_of_parent : thread.channels) forget_ring(channel_of_parent);
    if (mine.channel != &channel) forget_ring(mine);
    mine.channel = &channel;
    mine.writer.base.map = channel.map;
    mine.writer.base.clock_line = {};
    mine.writer.base.channel = channel.number;
    mine.note_lane(static_cast<uint32_t>(wire::lane_of(channel.number)));
    set_contexts(mine.writer, channel.contexts, task);
    thread.tid = task.tid;
    thread.refreshed = now;
    thread.generation = generation;
    // A signal handler in between believes what is there once it sees the key.
    __atomic_signal_fence(__ATOMIC_RELEASE);
    mine.filled_key = uint64_t{generation} << kGenerationShift | channel.number;
    return mine;
}

// Without the TSC, the time is read before the sequence; where threads may be shared, somebody asks first; and what
// differs from call to call is put together for each.
void go_straight_if_possible(ThreadChannel& mine) {
    const Channel& channel = *mine.channel;
    const bool is_possible = channel.has_rseq && channel.sees_vforks && thread_state.is_shared == 0 &&
                             ring::uses_tsc(*channel.map.clock) && (channel.contexts & wire::kContextsOfCall) == 0;
    // After all that was filled in: a signal handler may come here.
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    mine.set_straight_key(is_possible ? mine.filled_key : kNoKey);
}

ThreadChannel& note_miss(ThreadChannel& mine) {
    constexpr uint32_t kMissesToMove = 16;
    ThreadChannel& first = thread_state.channels[0];
    if (&mine == &first || ++thread_state.misses % kMissesToMove != 0) return mine;
    ThreadChannel moved = mine;
    ThreadChannel displaced = first;
    forget(mine);
    forget(first);
    // A signal handler takes neither for what it was.
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    const uint64_t keys[] = {moved.straight_key(), moved.filled_key, displaced.straight_key(), displaced.filled_key};
    forget(moved);
    forget(displaced);
    moved.writer.base.clock_line = {};
    displaced.writer.base.clock_line = {};
    first = moved;
    mine = displaced;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    mine.filled_key = keys[3];
    mine.set_straight_key(keys[2]);
    first.filled_key = keys[1];
    first.set_straight_key(keys[0]);
    return first;
}

void forget_contexts() {
    for (ThreadChannel& channel : thread_state.channels) forget(channel);
}

void do_not_go_straight() {
    for (ThreadChannel& channel : thread_state.channels) channel.set_straight_key(kNoKey);
}

}  // namespace leat::tracer
