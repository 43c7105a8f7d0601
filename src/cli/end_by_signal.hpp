#pragma once

#include <csignal>
#include <cstdlib>

namespace leat::cli {

// The exit status of a program that a signal has ended, as shells give it.
inline int status_of_signal(int signal) { return 128 + signal; }

// Ends us as the signal does by default, which the shell that waits for us can see: of SIGPIPE, that nobody read on; of
// SIGINT, that a loop is to end as well. Where the signal is blocked, with the status that shells know.
[[noreturn]] inline void end_by_signal(int number) {
    std::signal(number, SIG_DFL);
    std::raise(number);
    std::_Exit(status_of_signal(number));
}

}  // namespace leat::cli
