#pragma once

#include <chrono>

#include "base/result.hpp"

namespace leat::net {

// Waits until `fd` has any of these events of poll(), for so long at most. An error: it has none, or `stop_fd` has
// become readable.
Result<void> wait_for(int fd, short events, std::chrono::milliseconds patience, int stop_fd);

}  // namespace leat::net
