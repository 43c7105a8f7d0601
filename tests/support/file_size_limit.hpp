#pragma once

#include <csignal>

#include "support/resource_limit.hpp"

namespace leat::test {

// Limits the size of all files that this process writes, as a full disk does.
class FileSizeLimit {
  public:
    explicit FileSizeLimit(rlim_t bytes) : limit_(RLIMIT_FSIZE, bytes) {}

  private:
    // Otherwise the process would end.
    class IgnoredSignal {
      public:
        IgnoredSignal() : before_(std::signal(SIGXFSZ, SIG_IGN)) {}
        ~IgnoredSignal() { std::signal(SIGXFSZ, before_); }
        IgnoredSignal(const IgnoredSignal&) = delete;
        IgnoredSignal& operator=(const IgnoredSignal&) = delete;

      private:
        void (*before_)(int);
    };

    IgnoredSignal ignored_;
    LowerLimit limit_;
};

}  // namespace leat::test
