// Signals that end a process which writes.
#pragma once

#include <csignal>

namespace leat::cli {

// Lets write() and send() report a closed pipe or connection, and a file that would be longer than it may be
// (ulimit -f): else, they end the process.
inline void let_writes_fail() {
    std::signal(SIGPIPE, SIG_IGN);
    std::signal(SIGXFSZ, SIG_IGN);
}

}  // namespace leat::cli
