#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <initializer_list>

namespace leat::cli {

// Call this first in main(). If we were started without standard descriptors, other files of ours would take their
// numbers, and messages would go there. A program that we start gets none, as we did. Who prints a result to where
// nobody can read it fails, as if it were still closed.
inline void occupy_standard_descriptors() {
    for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
        if (::fcntl(descriptor, F_GETFD) >= 0) continue;
        // It gets the lowest number that is free, which is this one.
        (void)::open("/dev/null", (descriptor == STDOUT_FILENO ? O_RDONLY : O_RDWR) | O_CLOEXEC);
    }
}

}  // namespace leat::cli
