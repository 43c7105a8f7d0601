#pragma once

#include <optional>
#include <set>

#include "session/channel.hpp"

namespace leat::session {

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
