#pragma once

#include <csignal>
#include <cstdlib>

#include "cli/process_end.hpp"

namespace leat::cli {

// Ends us as the signal does by default, which the shell that waits for us can see: of SIGPIPE, that nobody read on; of
// SIGINT, that a loop is to end as well. Where the signal is blocked, with the status that shells know.
[[noreturn]] inline void end_by_signal(int number) {
    std::signal(number, SIG_DFL);
    std::raise(number);
    std::_Exit(ProcessEnd::by_signal(number).exit_status);
}

}  // namespace leat::cli
