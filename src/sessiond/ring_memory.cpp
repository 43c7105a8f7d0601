#include "sessiond/ring_memory.hpp"

#include <fstream>

namespace leat::sessiond {

using session::Trace;

std::uint64_t RingMemory::rings_to_map() {
    std::uint64_t mappings = 0;
    std::ifstream("/proc/sys/vm/max_map_count") >> mappings;
    return mappings / ring::kMappingsOfRing;
}

RingMemory::OfUser& RingMemory::of_user(uid_t uid) {
    OfUser& user = by_user_[uid];
    const bool is_limited = limits_.rings != 0 && is_of_all_users_;
    if (is_limited && user.maps == nullptr) user.maps = std::make_shared<ring::MapShare>(limits_.rings / 2);
    return user;
}

Result<Trace::Claim> RingMemory::claim(uid_t uid, std::uint64_t bytes, std::uint64_t rings) {
    constexpr char kRemedy[] =
        "take smaller rings (leat enable-channel --ring-size), or raise leat-sessiond --max-memory";
    const std::uint64_t of_all = claimed_ + bytes;
    if (limits_.bytes != 0 && of_all > limits_.bytes)
        return refused("no memory for {} bytes of rings: all together would take {} of {}: {}", bytes, of_all,
                       limits_.bytes, kRemedy);
    const auto known = by_user_.find(uid);
    const std::uint64_t of_one = bytes + (known == by_user_.end() ? 0 : known->second.bytes);
    if (limits_.bytes != 0 && is_of_all_users_ && of_one > limits_.bytes / 2)
        return refused("no memory for {} bytes of rings: user {} would take {}, more than half of {}: {}", bytes, uid,
                       of_one, limits_.bytes, kRemedy);
    if (const OfUser& user = of_user(uid); user.maps != nullptr && !user.maps->take(rings)) {
        forget_if_unused(uid);
        return refused("no mappings for {} rings: user {} would have more than {}, half of what there are: {}", rings,
                       uid, limits_.rings / 2, "take fewer channels, or raise vm.max_map_count");
    }
    return take(uid, bytes, rings);
}

Trace::Claim RingMemory::claim_anyway(uid_t uid, std::uint64_t bytes, std::uint64_t rings) {
    if (const OfUser& user = of_user(uid); user.maps != nullptr) user.maps->take_anyway(rings);
    return take(uid, bytes, rings);
}

Trace::Claim RingMemory::take(uid_t uid, std::uint64_t bytes, std::uint64_t rings) {
    OfUser& user = of_user(uid);
    claimed_ += bytes;
    user.bytes += bytes;
    return {.memory = {nullptr, [this, uid, bytes, rings](const void*) { give_back(uid, bytes, rings); }},
            .maps = user.maps};
}

void RingMemory::give_back(uid_t uid, std::uint64_t bytes, std::uint64_t rings) {
    OfUser& user = by_user_.at(uid);
    claimed_ -= bytes;
    user.bytes -= bytes;
    if (user.maps != nullptr) user.maps->give_back(rings);
    forget_if_unused(uid);
}

// Rings of threads may have a share for longer than their trace has its claim.
void RingMemory::forget_if_unused(uid_t uid) {
    const auto found = by_user_.find(uid);
    if (found->second.bytes == 0 && found->second.maps.use_count() <= 1) by_user_.erase(found);
}

}  // namespace leat::sessiond
