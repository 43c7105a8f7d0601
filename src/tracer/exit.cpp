// _exit() and _Exit(), interposed: a child of fork that ends by them has not crashed. Not in the archive, as
// thread_names.cpp. With another status than 0 they may be the end of a signal handler: that is taken for a crash.
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "leat/abi.h"
#include "tracer/shared_thread.hpp"

namespace {

[[noreturn]] void end(int status) {
    if (status == 0) leat_process_ends();
    for (;;) syscall(SYS_exit_group, status);
}

}  // namespace

extern "C" LEAT_EXPORT void _exit(int status) { end(status); }
extern "C" LEAT_EXPORT void _Exit(int status) noexcept { end(status); }
