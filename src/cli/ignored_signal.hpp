// Signals that whoever started us wants to be nothing to us, as nohup(1) does when the terminal goes.
#pragma once

#include <signal.h>

namespace leat::cli {

inline bool is_ignored(int signal) {
    struct sigaction action {};
    return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace leat::cli
