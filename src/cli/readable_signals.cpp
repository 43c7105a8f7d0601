#include "cli/readable_signals.hpp"

#include <unistd.h>

#include <csignal>

namespace leat::cli {

ReadableSignals::ReadableSignals() {
    sigset_t wanted;
    sigemptyset(&wanted);
    for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) sigaddset(&wanted, signal);
    ::pthread_sigmask(SIG_BLOCK, &wanted, &before_);
    sigemptyset(&ignored_);
    for (const int signal : {SIGPIPE, SIGXFSZ})
        if (std::signal(signal, SIG_IGN) != SIG_IGN) sigaddset(&ignored_, signal);
    fd_ = UniqueFd(::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
}

ReadableSignals::~ReadableSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

std::optional<signalfd_siginfo> ReadableSignals::next() const {
    signalfd_siginfo signal{};
    if (::read(fd(), &signal, sizeof signal) != static_cast<ssize_t>(sizeof signal)) return std::nullopt;
    return signal;
}

}  // namespace leat::cli
