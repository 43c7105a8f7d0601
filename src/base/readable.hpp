#pragma once

#include <poll.h>

namespace leat {

// Whether reading, or accepting, would not block now. Also true at an end or an error.
[[nodiscard]] inline bool is_readable(int fd) {
    pollfd wanted{fd, POLLIN, 0};
    return ::poll(&wanted, 1, 0) == 1;
}

}  // namespace leat
