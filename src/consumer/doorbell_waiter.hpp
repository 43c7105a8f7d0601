#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace leat::consumer {

// Turns the doorbell of a ring set, a futex in shared memory, into a descriptor that a poll loop can wait for.
// Owns the one thread that it takes; the process that hosts a consumer has one.
class DoorbellWaiter {
  public:
    // `doorbell` outlives the waiter.
    static Result<std::unique_ptr<DoorbellWaiter>> start(std::uint32_t& doorbell);
    ~DoorbellWaiter();
    DoorbellWaiter(const DoorbellWaiter&) = delete;
    DoorbellWaiter& operator=(const DoorbellWaiter&) = delete;

    // Readable once the doorbell has rung.
    [[nodiscard]] int fd() const { return event_.get(); }
    // Call before the drain that answers the bell: a ring during that drain is then not lost.
    void acknowledge();

  private:
    DoorbellWaiter(std::uint32_t& doorbell, UniqueFd event);
    void wait_and_tell();

    std::uint32_t* doorbell_;
    UniqueFd event_;
    std::atomic<bool> is_ending_{false};
    std::thread thread_;
};

}  // namespace leat::consumer
