#include "sessiond/ring_memory.hpp"

namespace leat::sessiond {

using session::Trace;

Result<Trace::Claim> RingMemory::claim(uid_t uid, std::uint64_t bytes) {
    constexpr char kRemedy[] =
        "take smaller rings (leat enable-channel --ring-size), or raise leat-sessiond --max-memory";
    const std::uint64_t of_all = claimed_ + bytes;
    if (max_bytes_ != 0 && of_all > max_bytes_)
        return refused("no memory for {} bytes of rings: all together would take {} of {}: {}", bytes, of_all,
                       max_bytes_, kRemedy);
    const auto known = by_user_.find(uid);
    const std::uint64_t of_user = bytes + (known == by_user_.end() ? 0 : known->second);
    if (max_bytes_ != 0 && is_of_all_users_ && of_user > max_bytes_ / 2)
        return refused("no memory for {} bytes of rings: user {} would take {}, more than half of {}: {}", bytes, uid,
                       of_user, max_bytes_, kRemedy);
    return claim_anyway(uid, bytes);
}

Trace::Claim RingMemory::claim_anyway(uid_t uid, std::uint64_t bytes) {
    claimed_ += bytes;
    by_user_[uid] += bytes;
    return {nullptr, [this, uid, bytes](const void*) { give_back(uid, bytes); }};
}

void RingMemory::give_back(uid_t uid, std::uint64_t bytes) {
    claimed_ -= bytes;
    const auto known = by_user_.find(uid);
    known->second -= bytes;
    if (known->second == 0) by_user_.erase(known);
}

}  // namespace leat::sessiond
