#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>

#include "base/result.hpp"
#include "ring/map_share.hpp"
#include "session/trace.hpp"

namespace leat::sessiond {

// Shares out what rings take: their memory, and their mappings, of which a process has so many at most. Outlives the
// claims. One thread.
class RingMemory {
  public:
    struct Limits {
        std::uint64_t bytes = 0;  // of rings of CPUs; 0: there is no limit
        std::uint64_t rings = 0;  // that can be mapped; likewise
    };
    // Where all users are traced, nobody gets more than half of it: so there is something left for others.
    RingMemory(Limits limits, bool is_of_all_users) : limits_(limits), is_of_all_users_(is_of_all_users) {}
    // As many as vm.max_map_count allows; 0 if that is not known.
    static std::uint64_t rings_to_map();

    // `rings`: of CPUs, which are mapped at once.
    Result<session::Trace::Claim> claim(uid_t uid, std::uint64_t bytes, std::uint64_t rings);
    // Of a trace that is there already.
    session::Trace::Claim claim_anyway(uid_t uid, std::uint64_t bytes, std::uint64_t rings);
    // That have claims.
    [[nodiscard]] std::size_t users() const { return by_user_.size(); }

  private:
    struct OfUser {
        std::uint64_t bytes = 0;
        std::shared_ptr<ring::MapShare> maps{};  // null: as many as there are
    };
    OfUser& of_user(uid_t uid);
    void forget_if_unused(uid_t uid);
    session::Trace::Claim take(uid_t uid, std::uint64_t bytes, std::uint64_t rings);
    void give_back(uid_t uid, std::uint64_t bytes, std::uint64_t rings);

    Limits limits_;
    bool is_of_all_users_;
    std::uint64_t claimed_ = 0;
    std::map<uid_t, OfUser> by_user_{};
};

}  // namespace leat::sessiond
