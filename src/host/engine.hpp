#pragma once

#include <poll.h>

#include <chrono>
#include <memory>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "host/doorbell_waiter.hpp"
#include "host/recording.hpp"

namespace leat::host {

// Runs recordings in one poll loop. Its host (a recorder, a session of the daemon, a test) calls turn() for as long as
// it likes, and looks after its own descriptors in between.
//
//     turn:  collect what all recordings wait for -> sleep on bells, descriptors, the earliest deadline -> each
//            recording does what is due
//
// One thread calls it.
class Engine {
  public:
    using Clock = std::chrono::steady_clock;

    static Result<std::unique_ptr<Engine>> create();

    // Runs the recording until remove(). The recording does not move.
    Recording& add(std::unique_ptr<Recording> recording);
    // Ends the recording, and waits for that as long as it goes forward. All others get their turns meanwhile.
    void finish(Recording& recording);
    // Gives the recording back, to be destroyed.
    std::unique_ptr<Recording> remove(const Recording& recording);

    // Waits until there is something to do, at most for `longest`, and lets every recording do what is due. `own` are
    // the host's descriptors: they end the wait, too, and have their `revents` set afterwards.
    void turn(std::span<pollfd> own, Clock::duration longest = std::chrono::hours(1));

  private:
    explicit Engine(std::unique_ptr<DoorbellWaiter> doorbells) : doorbells_(std::move(doorbells)) {}
    bool has_rung(const Recording& recording);

    std::unique_ptr<DoorbellWaiter> doorbells_;
    std::vector<std::unique_ptr<Recording>> recordings_;
};

}  // namespace leat::host
