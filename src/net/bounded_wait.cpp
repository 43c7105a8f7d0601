#include "net/bounded_wait.hpp"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace leat::net {

Result<void> wait_for(int fd, short events, std::chrono::milliseconds patience, int stop_fd) {
    using namespace std::chrono_literals;
    using Clock = std::chrono::steady_clock;
    const auto give_up_at = Clock::now() + patience;
    for (;;) {
        const auto left = std::max(0ms, std::chrono::ceil<std::chrono::milliseconds>(give_up_at - Clock::now()));
        std::array<pollfd, 2> wanted{{{fd, events, 0}, {stop_fd, POLLIN, 0}}};
        const int count = ::poll(wanted.data(), wanted.size(), static_cast<int>(left.count()));
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return io_error("cannot wait for an answer");
        if (wanted[1].revents != 0) return refused("stopped");
        if (wanted[0].revents != 0) return {};
        if (left == 0ms) return fail(ErrorKind::kIo, "no answer within {} s", patience / 1s);
    }
}

}  // namespace leat::net
