#pragma once

namespace leat::cli {

// How a process has ended: by itself, or by a signal.
struct ProcessEnd {
    int exit_status = 0;  // as shells give it: 128 + the number of the signal
    int signal = 0;       // 0: by itself

    static ProcessEnd by_signal(int number) { return {.exit_status = 128 + number, .signal = number}; }
};

}  // namespace leat::cli
