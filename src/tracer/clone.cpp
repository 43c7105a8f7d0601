// clone(), interposed for children that share our memory: see shared_thread.hpp.
#include <sched.h>
#include <stdarg.h>

#include "tracer/shared_thread.hpp"

// glibc's own name for it.
extern "C" int __clone(int (*function)(void*), void* stack, int flags, void* argument, ...);

// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): glibc calls them __fn and so on
extern "C" LEAT_EXPORT int clone(int (*function)(void*), void* stack, int flags, void* argument, ...) noexcept {
    va_list arguments;
    va_start(arguments, argument);
    void* parent_tid = va_arg(arguments, void*);
    void* tls = va_arg(arguments, void*);
    void* child_tid = va_arg(arguments, void*);
    va_end(arguments);

    const bool shares_thread = (flags & CLONE_VM) != 0 && (flags & CLONE_SETTLS) == 0;
    if (shares_thread) leat_thread_share();
    const int child = __clone(function, stack, flags, argument, parent_tid, tls, child_tid);
    // Without CLONE_VFORK both run from here on: that is for good.
    if (shares_thread && (child < 0 || (flags & CLONE_VFORK) != 0)) leat_thread_unshare();
    return child;
}
