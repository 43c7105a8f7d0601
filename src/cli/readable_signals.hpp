#pragma once

#include <signal.h>
#include <sys/signalfd.h>

#include <optional>

#include "base/unique_fd.hpp"

namespace leat::cli {

// Signals that become readable instead of ending us in the middle of a packet: SIGCHLD, and those that a recorder
// passes on to its program. Blocks them for this thread and the threads it starts, as long as the object lives.
class ReadableSignals {
  public:
    ReadableSignals();
    ~ReadableSignals();
    ReadableSignals(const ReadableSignals&) = delete;
    ReadableSignals& operator=(const ReadableSignals&) = delete;

    [[nodiscard]] int fd() const { return fd_.get(); }
    // The next signal that has arrived, if any. Never waits.
    [[nodiscard]] std::optional<signalfd_siginfo> next() const;

  private:
    sigset_t before_{};
    UniqueFd fd_;
};

}  // namespace leat::cli
