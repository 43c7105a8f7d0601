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

// While this object lives, this many can be had, or fewer.
class FewDescriptorsLeft : public LowerDescriptorLimit {
  public:
    explicit FewDescriptorsLeft(rlim_t count) : LowerDescriptorLimit(lowest_free() + count) {}

  private:
    static rlim_t lowest_free() {
        const UniqueFd lowest(::open("/", O_RDONLY | O_CLOEXEC));
        return static_cast<rlim_t>(lowest.get());
    }
};

class NoDescriptorLeft : public FewDescriptorsLeft {
  public:
    NoDescriptorLeft() : FewDescriptorsLeft(0) {}
};

}  // namespace leat::test
