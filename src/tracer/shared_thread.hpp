// Two tasks that run at the same time on one thread-local state: what clone(CLONE_VM) makes without CLONE_SETTLS and
// CLONE_VFORK. Neither can rely on anything that it finds there, so each asks the kernel at every event who it is (see
// thread_identity.hpp).
//
// clone() is interposed for that: libleat and the preload libraries define it, and go on to glibc's. A vfork() needs
// none of it, nor does a bare system call that makes such a child: its parent sleeps meanwhile, and that shows.
#pragma once

#include "leat/abi.h"

extern "C" {

// This thread is about to be shared, for good. Any thread; async-signal-safe.
LEAT_EXPORT void leat_thread_share();
// It was not: there is no child.
LEAT_EXPORT void leat_thread_unshare();
}
