#include "cli/stop_signals.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>

#include "cli/ignored_signal.hpp"

namespace leat::cli {
namespace {

std::array<int, 2> pipe_fds{-1, -1};
std::atomic<bool> has_signal{false};

// A signal that comes just before a system call does not interrupt it. So an alarm goes off every second from then on.
void knock(int /*signal*/) { ::alarm(1); }

void stop(int signal) {
    const int saved = errno;
    has_signal.store(true, std::memory_order_relaxed);
    (void)!::write(pipe_fds[1], "", 1);
    knock(signal);
    errno = saved;
}

}  // namespace

StopSignals::StopSignals() {
    if (pipe_fds[0] < 0) (void)!::pipe2(pipe_fds.data(), O_CLOEXEC | O_NONBLOCK);
    struct sigaction action {};
    action.sa_handler = knock;  // without SA_RESTART: calls are interrupted
    ::sigaction(SIGALRM, &action, nullptr);
    action.sa_handler = stop;
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP})
        if (signal == SIGTERM || !is_ignored(signal)) ::sigaction(signal, &action, nullptr);
}

int StopSignals::fd() const { return pipe_fds[0]; }
bool StopSignals::has_come() const { return has_signal.load(std::memory_order_relaxed); }

}  // namespace leat::cli
