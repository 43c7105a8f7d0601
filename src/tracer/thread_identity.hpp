// Whether the task that runs is the one that its thread-local state belongs to.
//
// A child of vfork() runs on its parent's thread: in its memory, with its thread-local state, while the kernel keeps
// the parent asleep. The kernel does not restart the child's restartable sequences, so it must not write into a CPU's
// ring. Nothing in memory or registers tells the two apart: only the kernel knows. Asking costs a system call, but need
// not be done at each event: making a child takes time.
//
//     parent   event    vfork()  ............ asleep ...........   event
//     child                      event   event   exec
//              |<-- > 10 us ---->|
//
// So a thread that wrote nothing for kLongestPause asks before it writes. A child never counts as its parent by that
// rule, as it leaves no trace in the thread-local state.
#pragma once

#include <stdint.h>

#include "tracer/channel.hpp"

namespace leat::tracer {

// ns. The fastest machines take more than twice as long from an event before vfork() to one of the child.
inline constexpr int64_t kLongestPause = 3'000;

struct Task {
    int32_t pid;
    int32_t tid;
    // Thread-local state, and the kernel's restarts of restartable sequences, are this task's own.
    bool owns_thread;
};

// Bytes that this thread has registered for restartable sequences; 0: none, or the kernel does not say. Preserves
// errno.
uint32_t registered_area_size(int64_t rseq_offset);

// Asks the kernel. Any thread; async-signal-safe; preserves errno.
Task running_task(const Channel& channel);

}  // namespace leat::tracer
