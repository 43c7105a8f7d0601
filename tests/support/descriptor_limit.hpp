// A process that has no more descriptors, for a while.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "base/unique_fd.hpp"

namespace leat::test {

// Sets the soft limit while this object lives.
class LowerDescriptorLimit {
  public:
    explicit LowerDescriptorLimit(rlim_t limit) {
        EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
        const rlimit lower{.rlim_cur = limit, .rlim_max = before_.rlim_max};
        EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &lower), 0);
    }
    ~LowerDescriptorLimit() { (void)::setrlimit(RLIMIT_NOFILE, &before_); }
    LowerDescriptorLimit(const LowerDescriptorLimit&) = delete;
    LowerDescriptorLimit& operator=(const LowerDescriptorLimit&) = delete;

  private:
    rlimit before_{};
};

// While this object lives, none can be had.
class NoDescriptorLeft : public LowerDescriptorLimit {
  public:
    NoDescriptorLeft() : LowerDescriptorLimit(lowest_free()) {}

  private:
    static rlim_t lowest_free() {
        const UniqueFd lowest(::open("/", O_RDONLY | O_CLOEXEC));
        return static_cast<rlim_t>(lowest.get());
    }
};

}  // namespace leat::test
