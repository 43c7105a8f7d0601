#pragma once

#include <cstdint>

#include "base/mapping.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "ring/clock_page.hpp"

namespace leat::ring {

// Keeps the clock page: ties the TSC to CLOCK_MONOTONIC, and keeps it tied. Daemon only, one thread.
class SharedClock {
  public:
    static Result<SharedClock> create();

    // Sealed against every further writable mapping: programs can only read the clock.
    [[nodiscard]] int fd() const { return fd_.get(); }
    [[nodiscard]] const ClockPage& page() const;

    // Bends the line so that it meets CLOCK_MONOTONIC again; a few times a second. Gives the TSC up for good if the
    // kernel did.
    void discipline();

  private:
    // The TSC and CLOCK_MONOTONIC at one moment.
    struct Sample {
        std::uint64_t tsc;
        std::uint64_t ns;
    };
    [[nodiscard]] static Sample sample();
    [[nodiscard]] bool does_kernel_use_tsc() const;
    void publish(const ClockLine& line, ClockSource source);
    [[nodiscard]] ClockPage& writable_page() const;

    UniqueFd fd_;
    Mapping mapping_;
    UniqueFd clock_source_;  // the kernel's name of it
    Sample first_{};
};

}  // namespace leat::ring
