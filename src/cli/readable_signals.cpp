#include "cli/readable_signals.hpp"

#include <unistd.h>

#include <csignal>

#include "cli/ignored_signal.hpp"

namespace leat::cli {
namespace {

// What would end us if nobody took it, but for what errors in a program and its limits raise; and SIGWINCH, which some
// servers understand.
sigset_t signals_to_read() {
    sigset_t signals;
    sigemptyset(&signals);
    for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF,
                             SIGPOLL, SIGPWR, SIGSTKFLT, SIGWINCH})
        sigaddset(&signals, signal);
    for (int signal = SIGRTMIN; signal <= SIGRTMAX; ++signal) sigaddset(&signals, signal);
    return signals;
}

}  // namespace

ReadableSignals::ReadableSignals() {
    const sigset_t wanted = signals_to_read();
    ::pthread_sigmask(SIG_BLOCK, &wanted, &before_);
    // Whoever started us may ignore the ends of children: then none would be told.
    (void)std::signal(SIGCHLD, SIG_DFL);
    sigemptyset(&ignored_);
    for (const int signal : {SIGPIPE, SIGXFSZ})
        if (std::signal(signal, SIG_IGN) != SIG_IGN) sigaddset(&ignored_, signal);
    fd_ = UniqueFd(::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
}

// What has come by now is too late for us.
ReadableSignals::~ReadableSignals() {
    while (next()) continue;
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

std::optional<int> ReadableSignals::take_end() const {
    sigset_t pending;
    sigemptyset(&pending);
    (void)::sigpending(&pending);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
        if (sigismember(&pending, signal) != 1 || is_ignored(signal)) continue;
        while (next()) continue;
        return signal;
    }
    return std::nullopt;
}

std::optional<signalfd_siginfo> ReadableSignals::next() const {
    signalfd_siginfo signal{};
    if (::read(fd(), &signal, sizeof signal) != static_cast<ssize_t>(sizeof signal)) return std::nullopt;
    return signal;
}

}  // namespace leat::cli
