#pragma once

#include <cstdint>
#include <memory>

#include "base/mapping.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "ring/clock_page.hpp"

namespace leat::ring {

// What the clock is tied to.
class TimeSource {
  public:
    struct Sample {
        std::uint64_t tsc;
        std::uint64_t ns;  // CLOCK_MONOTONIC
    };

    TimeSource() = default;
    TimeSource(const TimeSource&) = delete;
    TimeSource& operator=(const TimeSource&) = delete;
    virtual ~TimeSource() = default;

    // Both at one moment.
    virtual Sample sample() = 0;
    // Invariant, and the same on all CPUs.
    [[nodiscard]] virtual bool is_tsc_trusted() const = 0;

    // The processor's and the kernel's.
    static std::unique_ptr<TimeSource> of_system();
};

// Keeps the clock page: ties the TSC to CLOCK_MONOTONIC, and keeps it tied. Daemon only, one thread.
//
// Time in a trace never jumps back, and never stands still for long: where the two have come apart (a TSC that ran on
// while the machine slept, or began anew), the clock goes on from where it was, at a constant distance to
// CLOCK_MONOTONIC from then on.
class SharedClock {
  public:
    static Result<SharedClock> create(std::unique_ptr<TimeSource> source = TimeSource::of_system());

    // Takes over the page of one that has ended with its process: programs go by its last line until now.
    static Result<SharedClock> adopt(UniqueFd page, std::unique_ptr<TimeSource> source = TimeSource::of_system());

    // One that always says `ns`: of rings that nobody writes to any more.
    static Result<SharedClock> stopped(std::uint64_t ns);

    // For programs: open for reading alone, and its size is sealed. Programs of other users than ours cannot open it
    // for writing either.
    [[nodiscard]] int fd() const { return reading_fd_.get(); }
    // To adopt it.
    [[nodiscard]] int page_fd() const { return fd_.get(); }
    [[nodiscard]] const ClockPage& page() const;

    // Bends the line so that it meets CLOCK_MONOTONIC again; a few times a second. `newest`: the latest time in a
    // record so far, ns. Gives the TSC up for good if the kernel did, or if a record shows that it runs ahead on some
    // CPU.
    void discipline(std::uint64_t newest);

  private:
    using Sample = TimeSource::Sample;

    [[nodiscard]] std::uint64_t value_at(const Sample& now, const ClockLine& line) const;
    void bend(const Sample& now, const ClockLine& line, std::uint64_t ours);
    void leave_tsc(const Sample& now, std::uint64_t ours);
    void publish(const ClockLine& line, ClockSource source);
    [[nodiscard]] ClockPage& writable_page() const;

    static Result<SharedClock> make(std::unique_ptr<TimeSource> source);
    static Result<SharedClock> open(UniqueFd page, std::unique_ptr<TimeSource> source);

    UniqueFd fd_;
    UniqueFd reading_fd_;
    Mapping mapping_;
    std::unique_ptr<TimeSource> source_;
    Sample first_{};              // since when the slope is measured
    Sample last_{};               // when the line in force begins
    std::uint64_t distance_ = 0;  // ns, modulo 2^64: our time less CLOCK_MONOTONIC, but for the error that is bent away
};

}  // namespace leat::ring
