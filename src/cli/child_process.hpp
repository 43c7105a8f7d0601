#pragma once

#include <signal.h>
#include <sys/signalfd.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "cli/process_end.hpp"

namespace leat::cli {

// The program that we run: it has our stdin, stdout and terminal, and gets our signals.
class ChildProcess {
  public:
    using Variable = std::pair<std::string, std::string>;

    struct Signals {
        sigset_t blocked;
        sigset_t not_ignored;  // whatever we do
    };

    // Starts `command` (found through PATH) with these environment variables added.
    static Result<ChildProcess> start(const std::vector<std::string>& command, const std::vector<Variable>& variables,
                                      const Signals& signals);

    [[nodiscard]] pid_t pid() const { return pid_; }

    // How it has ended, once it has. Never waits.
    std::optional<ProcessEnd> poll_end();

    // One that has come to us, with its value, if it has one (sigqueue(3)).
    void send(const signalfd_siginfo& signal) const;

  private:
    explicit ChildProcess(pid_t pid) : pid_(pid) {}

    pid_t pid_;
};

}  // namespace leat::cli
