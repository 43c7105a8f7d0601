// A process that has no more descriptors, for a while.
#pragma once

#include <fcntl.h>

#include "base/unique_fd.hpp"
#include "support/resource_limit.hpp"

namespace leat::test {

// While this object lives, this many can be had, or fewer.
class FewDescriptorsLeft : public LowerLimit {
  public:
    explicit FewDescriptorsLeft(rlim_t count) : LowerLimit(RLIMIT_NOFILE, lowest_free() + count) {}

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
