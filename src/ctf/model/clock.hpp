#pragma once

#include <cstdint>
#include <optional>

#include "ctf/model/trace_class.hpp"

namespace leat::ctf {

// Turns the values of a clock into nanoseconds since its origin.
class Clock {
  public:
    explicit Clock(const ClockClass& clock_class);

    // Nothing if the time does not fit: about 292 years before or after the origin.
    [[nodiscard]] std::optional<std::int64_t> nanoseconds(std::uint64_t cycles) const;

  private:
    std::uint64_t frequency_;
    std::optional<std::int64_t> base_ns_;
};

// The value of a clock that a narrow timestamp of `size` bits stands for, when the clock was last seen at `previous`:
// the next one that has these low bits.
[[nodiscard]] std::uint64_t extend_timestamp(std::uint64_t previous, std::uint64_t timestamp, unsigned size);

}  // namespace leat::ctf
