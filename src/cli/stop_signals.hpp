#pragma once

#include <initializer_list>

namespace leat::cli {

// SIGINT, SIGTERM and SIGHUP make a descriptor readable, and interrupt a system call that waits. The second signal ends
// the program, as it does by default. But whoever started us may have had SIGINT or SIGHUP ignored, as nohup does. One
// object at a time; the handlers stay.
class StopSignals {
  public:
    StopSignals();

    // Readable once the program is to stop.
    [[nodiscard]] int fd() const;
    [[nodiscard]] bool has_come() const;
};

}  // namespace leat::cli
