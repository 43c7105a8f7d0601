#include "host/doorbell_waiter.hpp"

#include <linux/futex.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <ctime>
#include <system_error>

#include "base/blocked_signals.hpp"
#include "base/threads.hpp"

namespace leat::host {
namespace {

using namespace std::chrono_literals;

// With a timeout as short as this, arming the descriptors costs more than hearing a bell late.
constexpr auto kShortWait = 300us;
// How long a bell may go unheard if the kernel cannot sleep on it: those beyond FUTEX_WAITV_MAX, and before Linux 5.16
// all but the first.
constexpr auto kLongestDeafness = 1ms;
// Keeps deadlines within the range of a timespec.
constexpr auto kLongestSleep = 24h;

timespec to_timespec(std::chrono::nanoseconds duration) {
    constexpr std::int64_t kSecond = 1'000'000'000;
    return {.tv_sec = duration.count() / kSecond, .tv_nsec = duration.count() % kSecond};
}

int poll(std::span<pollfd> fds, std::chrono::nanoseconds timeout) {
    const timespec left = to_timespec(timeout);
    return ::ppoll(fds.data(), fds.size(), &left, nullptr);
}

}  // namespace

Result<std::unique_ptr<DoorbellWaiter>> DoorbellWaiter::start() {
    UniqueFd watched(::epoll_create1(EPOLL_CLOEXEC));
    UniqueFd end(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    epoll_event event{.events = EPOLLIN, .data = {.fd = end.get()}};
    if (!watched.is_open() || !end.is_open() || ::epoll_ctl(watched.get(), EPOLL_CTL_ADD, end.get(), &event) != 0)
        return io_error("cannot create the doorbell's descriptors");
    try {
        return std::unique_ptr<DoorbellWaiter>(new DoorbellWaiter(std::move(watched), std::move(end)));
    } catch (const std::system_error&) {
        return cannot_start_thread();
    }
}

DoorbellWaiter::DoorbellWaiter(UniqueFd watched, UniqueFd end) : watched_(std::move(watched)), end_(std::move(end)) {
    const BlockedSignals blocked;
    thread_ = std::thread([this] { watch_and_ring(); });
}

DoorbellWaiter::~DoorbellWaiter() {
    ::eventfd_write(end_.get(), 1);
    thread_.join();
}

void DoorbellWaiter::add(std::uint32_t& doorbell) {
    const std::lock_guard guard(lock_);
    bells_.push_back({&doorbell, std::atomic_ref(doorbell).load(), 0});
}

void DoorbellWaiter::remove(const std::uint32_t& doorbell) {
    const std::lock_guard guard(lock_);
    std::erase_if(bells_, [&](const Bell& bell) { return bell.word == &doorbell; });
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
    const std::lock_guard guard(lock_);
    if (bells_.empty()) return;
    Bell& bell = bells_.front();
    ++bell.own_rings;
    std::atomic_ref(*bell.word).fetch_add(1);
    ::syscall(SYS_futex, bell.word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

std::uint32_t DoorbellWaiter::rings_of_writers(const Bell& bell) {
    const std::lock_guard guard(lock_);
    // X: the records of the writers that rang are visible. Pairs with W in careful_record.cpp's ring_doorbell().
    return std::atomic_ref(*bell.word).load() - bell.own_rings;
}

bool DoorbellWaiter::has_rung(const std::uint32_t& doorbell) {
    for (Bell& bell : bells_) {
        if (bell.word != &doorbell) continue;
        const std::uint32_t rings = rings_of_writers(bell);
        return std::exchange(bell.heard, rings) != rings;
    }
    return false;
}

bool DoorbellWaiter::has_any_rung() {
    return std::ranges::any_of(bells_, [this](const Bell& bell) { return rings_of_writers(bell) != bell.heard; });
}

// Adds all descriptors each time: the kernel forgets a closed one, and its number may stand for another file by now.
void DoorbellWaiter::watch(std::span<const pollfd> fds) const {
    for (const pollfd& wanted : fds) {
        if (wanted.fd < 0) continue;
        epoll_event event{.events = static_cast<std::uint32_t>(wanted.events) | EPOLLONESHOT,
                          .data = {.fd = wanted.fd}};
        if (::epoll_ctl(watched_.get(), EPOLL_CTL_MOD, wanted.fd, &event) == 0) continue;
        ::epoll_ctl(watched_.get(), EPOLL_CTL_ADD, wanted.fd, &event);
    }
}

// Sleeps until a bell differs from what was seen. If the kernel cannot wait for all of them at once, the sleep is
// short.
void DoorbellWaiter::sleep(std::span<const std::uint32_t> seen, std::chrono::nanoseconds timeout) const {
    if (seen.size() > 1) {
        std::array<futex_waitv, FUTEX_WAITV_MAX> wanted{};
        const std::size_t count = std::min(seen.size(), wanted.size());
        for (std::size_t i = 0; i < count; ++i)
            wanted[i] = {.val = seen[i],
                         .uaddr = reinterpret_cast<std::uintptr_t>(bells_[i].word),  // NOLINT(*-reinterpret-cast)
                         .flags = FUTEX_32,
                         .__reserved = 0};
        if (count < seen.size()) timeout = std::min<std::chrono::nanoseconds>(timeout, kLongestDeafness);
        timespec until{};
        ::clock_gettime(CLOCK_MONOTONIC, &until);
        const timespec end = to_timespec(std::chrono::seconds(until.tv_sec) + std::chrono::nanoseconds(until.tv_nsec) +
                                         std::min<std::chrono::nanoseconds>(timeout, kLongestSleep));
        const bool has_slept = ::syscall(SYS_futex_waitv, wanted.data(), count, 0, &end, CLOCK_MONOTONIC) >= 0 ||
                               errno == EAGAIN || errno == EINTR || errno == ETIMEDOUT;
        if (has_slept) return;
        timeout = std::min<std::chrono::nanoseconds>(timeout, kLongestDeafness);
    }
    const timespec left = to_timespec(timeout);
    ::syscall(SYS_futex, bells_.front().word, FUTEX_WAIT, seen.front(), &left, nullptr, 0);
}

// Applications can write to doorbells, and one that resets its bell makes us miss rings. Therefore callers pass a
// timeout, and look at the rings after it.
void DoorbellWaiter::wait(std::span<pollfd> fds, std::chrono::nanoseconds timeout) {
    // Read the bells before looking at anything else: if one changes after that, the kernel does not put us to sleep.
    std::vector<std::uint32_t> seen;
    seen.reserve(bells_.size());
    for (const Bell& bell : bells_) seen.push_back(std::atomic_ref(*bell.word).load());
    is_fd_ready_ = false;
    if (has_any_rung()) timeout = 0ns;
    if (timeout < kShortWait || bells_.empty()) {
        poll(fds, timeout);
        return;
    }
    if (poll(fds, 0ns) != 0) return;
    watch(fds);
    sleep(seen, timeout);
    // If only a bell has rung, do not poll: somebody waits for its event.
    if (!has_any_rung() || is_fd_ready_) poll(fds, 0ns);
}

}  // namespace leat::host
