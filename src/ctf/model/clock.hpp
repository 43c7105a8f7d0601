#pragma once

#include <cstdint>
#include <optional>

#include "ctf/model/trace_class.hpp"

namespace leat::ctf {

// Turns the values of a clock into nanoseconds since its origin.
class Clock {
  public:
    explicit Clock(const ClockClass& clock_class);

    // Nothing if the time does not fit into 64 bits: it is more than about 292 years from the origin.
    [[nodiscard]] std::optional<std::int64_t> nanoseconds(std::uint64_t cycles) const;

  private:
    std::uint64_t frequency_;
    std::optional<std::int64_t> base_ns_;
};

// Extends a narrow timestamp of `size` bits to the clock's full value: the first value from `previous` on that has
// these low bits. `previous` is the last known value of the clock.
[[nodiscard]] std::uint64_t extend_timestamp(std::uint64_t previous, std::uint64_t timestamp, unsigned size);

}  // namespace leat::ctf
