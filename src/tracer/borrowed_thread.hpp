// A child of vfork() runs on its parent's thread: in its memory, with its thread-local state, while the kernel keeps
// the parent asleep. The kernel does not restart the child's restartable sequences, and the child would not know: so
// while a thread is lent out, its events are counted as discarded (DiscardReason::kBorrowed) and nothing is written.
//
// vfork and clone are interposed for that: libleat and the preload libraries define them, and go on to the kernel and
// to glibc. (posix_spawn needs none of it: glibc's child calls nothing that could be traced.)
#pragma once

#include "leat/abi.h"

extern "C" {

// This thread is about to be lent to a child. Nests. Any thread; async-signal-safe.
LEAT_EXPORT void leat_thread_lend();
// It is back.
LEAT_EXPORT void leat_thread_take_back();
}
