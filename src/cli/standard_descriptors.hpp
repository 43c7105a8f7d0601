#pragma once

#include <fcntl.h>
#include <unistd.h>

namespace leat::cli {

// Call this first in main(). If we were started without standard descriptors, other files of ours would take their
// numbers, and messages would go there. A program that we start gets none, as we did.
inline void occupy_standard_descriptors() {
    int fd = 0;
    do fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd > STDERR_FILENO) ::close(fd);
}

}  // namespace leat::cli
