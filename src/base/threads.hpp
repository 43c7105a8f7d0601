// Threads that cannot be started.
#pragma once

#include "base/result.hpp"

namespace leat {

// What to say where the constructor of a std::thread throws.
inline tl::unexpected<Error> cannot_start_thread() {
    return fail(ErrorKind::kDiskFull, "cannot start a thread: see the limits of processes (ulimit -u, TasksMax)");
}

}  // namespace leat
