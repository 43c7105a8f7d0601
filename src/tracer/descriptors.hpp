// Descriptors that libleat has for a while. libc's functions for them are cancellation points.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace leat::tracer {

// Where a program has closed its standard descriptors, a new one takes such a number, and what another thread prints
// meanwhile would go into a ring, or to a daemon. So it gets another number. Negative: there is none; changes errno.
inline int beyond_standard(int fd) {
    constexpr int kFirst = STDERR_FILENO + 1;
    if (fd < 0 || fd >= kFirst) return fd;
    const auto moved = static_cast<int>(syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, kFirst));
    const int error = errno;
    syscall(SYS_close, fd);
    errno = error;
    return moved;
}

}  // namespace leat::tracer
