// prctl() and pthread_setname_np(), interposed, so that the context "procname" follows the names of threads: see
// leat_contexts_changed(); and so that we know of sandboxes (sandbox.hpp). Not in the archive: a static program has no
// function of that name behind ours.
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tracer/next_function.hpp"
#include "tracer/sandbox.hpp"
#include "tracer/shared_thread.hpp"

namespace {

constinit leat::tracer::NextFunction next_set_name("pthread_setname_np");

[[gnu::constructor]] void find_next() { (void)next_set_name.find(); }

}  // namespace

// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): glibc calls it __option
extern "C" LEAT_EXPORT int prctl(int option, ...) noexcept {
    va_list arguments;
    va_start(arguments, option);
    unsigned long values[4];
    for (unsigned long& value : values) value = va_arg(arguments, unsigned long);
    va_end(arguments);
    const auto result = static_cast<int>(syscall(SYS_prctl, option, values[0], values[1], values[2], values[3]));
    if (option == PR_SET_NAME && result == 0) leat_contexts_changed();
    if (option == PR_SET_SECCOMP && result == 0) leat_sandbox_begins();
    return result;
}

// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): glibc calls them __target_thread and so on
extern "C" LEAT_EXPORT int pthread_setname_np(pthread_t thread, const char* name) noexcept {
    using SetName = int(pthread_t, const char*);
    auto* const next = reinterpret_cast<SetName*>(next_set_name.find());  // NOLINT(*-reinterpret-cast)
    if (next == nullptr) return ENOSYS;
    const int error = next(thread, name);
    if (error == 0) leat_contexts_changed();
    return error;
}
