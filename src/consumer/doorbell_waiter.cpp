#include "consumer/doorbell_waiter.hpp"

#include <linux/futex.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

#include "base/blocked_signals.hpp"

namespace leat::consumer {
namespace {

// The doorbell lies in memory that applications write: after one that resets it, or wakes nobody, we hear bells again
// no later than this. Our host looks at the rings now and then anyway.
constexpr timespec kLongestWait{.tv_sec = 10, .tv_nsec = 0};

}  // namespace

Result<std::unique_ptr<DoorbellWaiter>> DoorbellWaiter::start(std::uint32_t& doorbell) {
    UniqueFd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!event.is_open()) return io_error("cannot create the doorbell's descriptor");
    return std::unique_ptr<DoorbellWaiter>(new DoorbellWaiter(doorbell, std::move(event)));
}

DoorbellWaiter::DoorbellWaiter(std::uint32_t& doorbell, UniqueFd event)
    : doorbell_(&doorbell), event_(std::move(event)) {
    const BlockedSignals blocked;
    thread_ = std::thread([this] { wait_and_tell(); });
}

DoorbellWaiter::~DoorbellWaiter() {
    is_ending_ = true;
    std::atomic_ref(*doorbell_).fetch_add(1);
    ::syscall(SYS_futex, doorbell_, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
    thread_.join();
}

void DoorbellWaiter::wait_and_tell() {
    std::uint32_t seen = std::atomic_ref(*doorbell_).load();
    while (!is_ending_) {
        ::syscall(SYS_futex, doorbell_, FUTEX_WAIT, seen, &kLongestWait, nullptr, 0);
        const std::uint32_t now = std::atomic_ref(*doorbell_).load();
        if (now == seen) continue;
        seen = now;
        ::eventfd_write(event_.get(), 1);
    }
}

void DoorbellWaiter::acknowledge() {
    eventfd_t count = 0;
    ::eventfd_read(event_.get(), &count);
}

}  // namespace leat::consumer
