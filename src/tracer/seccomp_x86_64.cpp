// seccomp(), which libc has no function for, called by syscall(): vfork_x86_64.S comes here.
#include <errno.h>
#include <linux/seccomp.h>

#include "tracer/sandbox.hpp"

extern "C" [[gnu::visibility("hidden")]] long leat_own_seccomp(long number, unsigned long operation,
                                                               unsigned long flags, void* arguments) {
    long result = number;
    asm volatile("syscall" : "+a"(result) : "D"(operation), "S"(flags), "d"(arguments) : "rcx", "r11", "memory");
    const bool is_filter = operation == SECCOMP_SET_MODE_FILTER || operation == SECCOMP_SET_MODE_STRICT;
    if (result >= 0 && is_filter) leat_sandbox_begins();
    if (result >= 0) return result;
    errno = static_cast<int>(-result);
    return -1;
}
