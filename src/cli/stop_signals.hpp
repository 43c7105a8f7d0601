#pragma once

#include <initializer_list>

namespace leat::cli {

// SIGINT, SIGTERM and SIGHUP make a descriptor readable, and interrupt whatever system call waits. The second one ends
// the program as ever. One object at a time; the handlers stay.
class StopSignals {
  public:
    StopSignals();

    // Readable once we shall stop.
    [[nodiscard]] int fd() const;
    [[nodiscard]] bool has_come() const;
};

}  // namespace leat::cli
