// A process that gets less of a resource, for a while.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace leat::test {

// Sets the soft limit while this object lives. `resource`: one of getrlimit(2).
class LowerLimit {
  public:
    LowerLimit(int resource, rlim_t limit) : resource_(resource) {
        EXPECT_EQ(::getrlimit(resource_, &before_), 0);
        const rlimit lower{.rlim_cur = limit, .rlim_max = before_.rlim_max};
        EXPECT_EQ(::setrlimit(resource_, &lower), 0);
    }
    ~LowerLimit() { (void)::setrlimit(resource_, &before_); }
    LowerLimit(const LowerLimit&) = delete;
    LowerLimit& operator=(const LowerLimit&) = delete;

  private:
    int resource_;
    rlimit before_{};
};

}  // namespace leat::test
