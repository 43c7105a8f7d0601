#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>

#include "base/result.hpp"
#include "session/trace.hpp"

namespace leat::sessiond {

// Shares out the memory of rings: what traces have claimed takes no more than there is. Outlives the claims. One
// thread.
class RingMemory {
  public:
    // Where all users are traced, nobody gets more than half of it: so there is something left for others. 0: there is
    // no limit.
    RingMemory(std::uint64_t max_bytes, bool is_of_all_users)
        : max_bytes_(max_bytes), is_of_all_users_(is_of_all_users) {}

    Result<session::Trace::Claim> claim(uid_t uid, std::uint64_t bytes);
    // Of a trace that is there already.
    session::Trace::Claim claim_anyway(uid_t uid, std::uint64_t bytes);

  private:
    void give_back(uid_t uid, std::uint64_t bytes);

    std::uint64_t max_bytes_;
    bool is_of_all_users_;
    std::uint64_t claimed_ = 0;
    std::map<uid_t, std::uint64_t> by_user_{};
};

}  // namespace leat::sessiond
