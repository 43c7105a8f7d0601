#pragma once

#include <cstdint>

namespace leat {

// The inode of the PID namespace of this process: in another one, its pid names somebody else. 0: there is no /proc.
std::uint32_t own_pid_namespace();

}  // namespace leat
