#pragma once

#include <poll.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace leat::host {

// Waits for the doorbells of ring sets, futexes in shared memory, and for descriptors, whichever comes first.
//
// The caller sleeps on the futexes itself, so that an event wakes it without a detour. Descriptors take a longer way: a
// thread of ours watches them and rings the first bell. The process that hosts consumers has one such object. One
// thread calls it.
class DoorbellWaiter {
  public:
    static Result<std::unique_ptr<DoorbellWaiter>> start();
    ~DoorbellWaiter();
    DoorbellWaiter(const DoorbellWaiter&) = delete;
    DoorbellWaiter& operator=(const DoorbellWaiter&) = delete;

    // `doorbell` outlives the waiter, or is taken away by remove().
    void add(std::uint32_t& doorbell);
    void remove(const std::uint32_t& doorbell);

    // Like ppoll(), but also returns when a doorbell has rung since the last has_rung() of that bell. With a timeout
    // below 300 us bells may go unheard until the next call.
    void wait(std::span<pollfd> fds, std::chrono::nanoseconds timeout);

    // Whether writers have rung since the last call for this bell.
    bool has_rung(const std::uint32_t& doorbell);

  private:
    struct Bell {
        std::uint32_t* word;
        std::uint32_t heard;      // rings of writers
        std::uint32_t own_rings;  // of our thread
    };

    DoorbellWaiter(UniqueFd watched, UniqueFd end);
    void watch_and_ring();
    void ring();
    void watch(std::span<const pollfd> fds) const;
    void sleep(std::span<const std::uint32_t> seen, std::chrono::nanoseconds timeout) const;
    bool has_any_rung();
    std::uint32_t rings_of_writers(const Bell& bell);

    std::vector<Bell> bells_;  // changed by the caller alone
    UniqueFd watched_;         // epoll
    UniqueFd end_;             // readable when the thread is to end
    std::mutex lock_;          // of the list and of `own_rings`, which our thread uses to ring
    std::atomic<bool> is_fd_ready_{false};
    std::thread thread_;
};

}  // namespace leat::host
