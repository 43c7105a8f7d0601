#pragma once

#include <csignal>
#include <cstdlib>

namespace leat::cli {

// As other tools do when nobody reads on: with the status that shells know.
[[noreturn]] inline void end_by_sigpipe() {
    std::signal(SIGPIPE, SIG_DFL);
    std::raise(SIGPIPE);
    std::_Exit(128 + SIGPIPE);  // it is blocked
}

}  // namespace leat::cli
