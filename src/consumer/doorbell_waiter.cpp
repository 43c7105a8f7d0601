#include "consumer/doorbell_waiter.hpp"

#include <linux/futex.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>

#include "base/blocked_signals.hpp"

namespace leat::consumer {
namespace {

using namespace std::chrono_literals;

// Where a caller comes back so soon, arming the descriptors costs more than a bell that is heard late.
constexpr auto kShortWait = 300us;

timespec to_timespec(std::chrono::nanoseconds duration) {
    constexpr std::int64_t kSecond = 1'000'000'000;
    return {.tv_sec = duration.count() / kSecond, .tv_nsec = duration.count() % kSecond};
}

int poll(std::span<pollfd> fds, std::chrono::nanoseconds timeout) {
    const timespec left = to_timespec(timeout);
    return ::ppoll(fds.data(), fds.size(), &left, nullptr);
}

}  // namespace

Result<std::unique_ptr<DoorbellWaiter>> DoorbellWaiter::start(std::uint32_t& doorbell) {
    UniqueFd watched(::epoll_create1(EPOLL_CLOEXEC));
    UniqueFd end(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    epoll_event event{.events = EPOLLIN, .data = {.fd = end.get()}};
    if (!watched.is_open() || !end.is_open() || ::epoll_ctl(watched.get(), EPOLL_CTL_ADD, end.get(), &event) != 0)
        return io_error("cannot create the doorbell's descriptors");
    return std::unique_ptr<DoorbellWaiter>(new DoorbellWaiter(doorbell, std::move(watched), std::move(end)));
}

DoorbellWaiter::DoorbellWaiter(std::uint32_t& doorbell, UniqueFd watched, UniqueFd end)
    : doorbell_(&doorbell), watched_(std::move(watched)), end_(std::move(end)) {
    (void)has_rung();
    const BlockedSignals blocked;
    thread_ = std::thread([this] { watch_and_ring(); });
}

DoorbellWaiter::~DoorbellWaiter() {
    ::eventfd_write(end_.get(), 1);
    thread_.join();
}

// Each descriptor wakes us once, and then is not watched until wait() asks for it again.
void DoorbellWaiter::watch_and_ring() {
    for (;;) {
        epoll_event event{};
        if (::epoll_wait(watched_.get(), &event, 1, -1) != 1) continue;
        if (event.data.fd == end_.get()) return;
        ring();
    }
}

void DoorbellWaiter::ring() {
    is_fd_ready_ = true;
    own_rings_.fetch_add(1);
    std::atomic_ref(*doorbell_).fetch_add(1);
    ::syscall(SYS_futex, doorbell_, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// Between the two additions of ring() the difference is off by one: the caller then drains once for nothing.
bool DoorbellWaiter::has_rung() {
    const std::uint32_t rings = std::atomic_ref(*doorbell_).load() - own_rings_.load();
    return std::exchange(heard_, rings) != rings;
}

// All of them, each time: a closed descriptor is watched no more, and its number may have been given to another one.
void DoorbellWaiter::watch(std::span<const pollfd> fds) const {
    for (const pollfd& wanted : fds) {
        if (wanted.fd < 0) continue;
        epoll_event event{.events = static_cast<std::uint32_t>(wanted.events) | EPOLLONESHOT,
                          .data = {.fd = wanted.fd}};
        if (::epoll_ctl(watched_.get(), EPOLL_CTL_MOD, wanted.fd, &event) == 0) continue;
        ::epoll_ctl(watched_.get(), EPOLL_CTL_ADD, wanted.fd, &event);
    }
}

// The doorbell lies in memory that applications write: one that resets it makes us miss bells. Callers have a timeout
// and look at the rings then.
bool DoorbellWaiter::wait(std::span<pollfd> fds, std::chrono::nanoseconds timeout) {
    // Read before everything that is looked at: a change after that keeps us from falling asleep.
    const std::uint32_t seen = std::atomic_ref(*doorbell_).load();
    is_fd_ready_ = false;
    if (has_rung()) {
        poll(fds, 0ns);
        return true;
    }
    if (timeout < kShortWait) {
        poll(fds, timeout);
        return has_rung();
    }
    if (poll(fds, 0ns) != 0) return false;
    watch(fds);
    const timespec left = to_timespec(timeout);
    ::syscall(SYS_futex, doorbell_, FUTEX_WAIT, seen, &left, nullptr, 0);
    const bool is_bell = has_rung();
    // With a bell alone there is nothing to look for, and somebody waits for its event.
    if (!is_bell || is_fd_ready_) poll(fds, 0ns);
    return is_bell;
}

}  // namespace leat::consumer
