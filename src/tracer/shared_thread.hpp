// Tasks that use one thread's memory and thread-local state: a child of vfork() or of clone(CLONE_VM) without
// CLONE_SETTLS, and its parent. While that may be, each asks the kernel at every event who it is (see
// thread_identity.hpp).
//
// libleat and the preload libraries define vfork(), clone() and syscall(), say so here, and go on to the kernel.
// (posix_spawn needs none of it: glibc's child calls nothing that could be traced.)
#pragma once

#include "leat/abi.h"

extern "C" {

// This thread is about to be shared. Nests. Any thread; async-signal-safe.
LEAT_EXPORT void leat_thread_share();
// It is its own again: the child is gone, or there is none.
LEAT_EXPORT void leat_thread_unshare();
// Some thread of this process has another name, other ids, or other namespaces. Any thread; async-signal-safe.
LEAT_EXPORT void leat_contexts_changed();
// The effective user may be another one now. Any thread; async-signal-safe; preserves errno.
LEAT_EXPORT void leat_user_changed();
// The process is about to end as it means to: as mark_all_ended().
LEAT_EXPORT void leat_process_ends();
}
