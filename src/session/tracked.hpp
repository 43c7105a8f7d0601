#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <type_traits>

#include "session/channel.hpp"

namespace leat::session {

// The greatest number that may be tracked. Of users and groups, the one after it means nobody.
template <class Id>
inline constexpr std::int64_t kMostId = std::int64_t{std::numeric_limits<Id>::max()} - (std::is_signed_v<Id> ? 0 : 1);

// Which processes a session records: by default all. A set that was chosen may be empty: then nothing is.
struct Tracked {
    std::optional<std::set<pid_t>> vpids{};
    std::optional<std::set<uid_t>> vuids{};
    std::optional<std::set<gid_t>> vgids{};

    [[nodiscard]] bool has(const Application& application) const {
        return (!vpids || vpids->contains(application.vpid)) && (!vuids || vuids->contains(application.uid)) &&
               (!vgids || vgids->contains(application.gid));
    }
};

}  // namespace leat::session
