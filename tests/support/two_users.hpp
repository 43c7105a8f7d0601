// Whether a test can have programs of another user.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <fstream>

namespace leat::test {

// Whether we are root, and not only in a user namespace that has no other users.
inline bool can_be_two_users() {
    std::ifstream map("/proc/self/uid_map");
    std::uint64_t inside = 0, outside = 0, count = 0;
    while (map >> inside >> outside >> count)
        if (count > 65534) return ::geteuid() == 0;
    return false;
}

}  // namespace leat::test
