// unshare() and setns(), interposed, so that contexts follow the namespaces of threads: see leat_contexts_changed().
// Not in the archive, as thread_names.cpp.
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tracer/shared_thread.hpp"

// A new user namespace changes ids, too.
static int tell_of(long result) {
    if (result == 0) leat_contexts_changed();
    return static_cast<int>(result);
}

// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): glibc calls them __flags and so on
extern "C" LEAT_EXPORT int unshare(int flags) noexcept { return tell_of(syscall(SYS_unshare, flags)); }
extern "C" LEAT_EXPORT int setns(int fd, int kinds) noexcept { return tell_of(syscall(SYS_setns, fd, kinds)); }
// NOLINTEND(readability-inconsistent-declaration-parameter-name)
