#pragma once

#include <signal.h>
#include <sys/signalfd.h>

#include <optional>

#include "base/unique_fd.hpp"

namespace leat::cli {

// Signals that become readable instead of ending us in the middle of a packet: SIGCHLD, and those that a recorder
// passes on to its program. Blocks them for this thread and the threads it starts, as long as the object lives. From
// then on, a pipe that nobody reads is an error to who writes there, and no signal: who does not read what a recorder
// tells shall not end it.
class ReadableSignals {
  public:
    ReadableSignals();
    ~ReadableSignals();
    ReadableSignals(const ReadableSignals&) = delete;
    ReadableSignals& operator=(const ReadableSignals&) = delete;

    [[nodiscard]] int fd() const { return fd_.get(); }
    // The next signal that has arrived, if any. Never waits.
    [[nodiscard]] std::optional<signalfd_siginfo> next() const;
    // SIGINT or the like, if one has arrived that would have ended us, and is not read yet. Then all are read.
    [[nodiscard]] std::optional<int> take_end() const;
    [[nodiscard]] const sigset_t& blocked_before() const { return before_; }
    // Those that we ignore, and that were not ignored before.
    [[nodiscard]] const sigset_t& ignored() const { return ignored_; }

  private:
    sigset_t before_{};
    sigset_t ignored_{};
    UniqueFd fd_;
};

}  // namespace leat::cli
