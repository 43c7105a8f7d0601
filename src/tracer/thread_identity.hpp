// Whether the task that runs is the one that its thread-local state belongs to.
//
// A child of vfork() runs on its parent's thread: in its memory, with its thread-local state, while the kernel keeps
// the parent asleep. The kernel does not restart the child's restartable sequences, so it must not write into a CPU's
// ring. Nothing in memory or registers tells the two apart: only the kernel knows, and asking costs a system call. So
// we ask
//
// - where the thread is shared (shared_thread.hpp): at each event. That is known where the program's calls of vfork()
//   come to us, because we stand before libc in the search order;
// - elsewhere, as in a program of which only a library is instrumented: after a pause. Making a child takes time.
//
//     parent   event    vfork()  ............ asleep ...........   event
//     child                      event   event   exec
//              |<-- 9 us, or more -->|
//
// A child never counts as its parent: it leaves nothing in the thread-local state.
#pragma once

#include <stdint.h>

#include "tracer/channel.hpp"

namespace leat::tracer {

// ns. The fastest machines take twice as long from an event before vfork() to one of the child.
inline constexpr int64_t kLongestPause = 3'000;

struct Task {
    int32_t pid;
    int32_t tid;
    // Thread-local state, and the kernel's restarts of restartable sequences, are this task's own.
    bool owns_thread;
};

// Whether the program's vfork() is ours, so that it is known when a thread is shared.
bool sees_vforks();

// Bytes that this thread has registered for restartable sequences; 0: none, or the kernel does not say. Preserves
// errno.
uint32_t registered_area_size(int64_t rseq_offset);

// Asks the kernel. Any thread; async-signal-safe; preserves errno.
Task running_task(const Channel& channel);

}  // namespace leat::tracer
