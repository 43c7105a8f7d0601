#pragma once

#include <signal.h>

namespace leat {

// Blocks all signals for this thread, and for threads that it starts, while the object lives. They go to the thread
// that handles them instead. SIGBUS is for who caused it: see FaultGuard.
class BlockedSignals {
  public:
    BlockedSignals() {
        sigset_t all;
        sigfillset(&all);
        sigdelset(&all, SIGBUS);
        ::pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~BlockedSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    BlockedSignals(const BlockedSignals&) = delete;
    BlockedSignals& operator=(const BlockedSignals&) = delete;

  private:
    sigset_t before_{};
};

}  // namespace leat
