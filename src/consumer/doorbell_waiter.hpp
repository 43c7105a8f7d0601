#pragma once

#include <poll.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace leat::consumer {

// Waits for the doorbell of a ring set, a futex in shared memory, and for descriptors, whichever comes first.
//
// The caller sleeps on the futex itself, so that an event wakes it without a detour. A thread of ours watches the
// descriptors meanwhile and rings the same bell; these can take the longer way. The process that hosts a consumer has
// one such object.
class DoorbellWaiter {
  public:
    // `doorbell` outlives the waiter.
    static Result<std::unique_ptr<DoorbellWaiter>> start(std::uint32_t& doorbell);
    ~DoorbellWaiter();
    DoorbellWaiter(const DoorbellWaiter&) = delete;
    DoorbellWaiter& operator=(const DoorbellWaiter&) = delete;

    // Like ppoll(), but also returns when the doorbell has rung since the last wait() that said so; says whether it
    // has. With a timeout below 300 us bells may go unheard until the next call. One thread.
    bool wait(std::span<pollfd> fds, std::chrono::nanoseconds timeout);

  private:
    DoorbellWaiter(std::uint32_t& doorbell, UniqueFd watched, UniqueFd end);
    void watch_and_ring();
    void ring();
    void watch(std::span<const pollfd> fds) const;
    // Whether writers have rung since the last call.
    bool has_rung();

    std::uint32_t* doorbell_;
    UniqueFd watched_;  // epoll
    UniqueFd end_;      // readable when the thread is to end
    std::uint32_t heard_ = 0;
    std::atomic<std::uint32_t> own_rings_{0};
    std::atomic<bool> is_fd_ready_{false};
    std::thread thread_;
};

}  // namespace leat::consumer
