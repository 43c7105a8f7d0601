#pragma once

#include <cstdint>
#include <optional>

#include "ctf/model/trace_class.hpp"

namespace leat::ctf {

// How far a user moves clocks, to make traces of several hosts agree.
struct ClockShift {
    std::int64_t seconds = 0;
    std::int64_t ns = 0;
};
// False: the clock cannot be moved so far, and stays as it is.
[[nodiscard]] bool move_clock(ClockClass& clock, const ClockShift& shift);

// Turns the values of a clock into nanoseconds since its origin.
class Clock {
  public:
    // Counts nanoseconds from its origin.
    Clock() = default;
    explicit Clock(const ClockClass& clock_class);

    // Nothing if the time does not fit into 64 bits: it is more than about 292 years from the origin. Never INT64_MIN.
    [[nodiscard]] std::optional<std::int64_t> nanoseconds(std::uint64_t cycles) const {
        std::int64_t ns = 0;
        return convert(cycles, ns) ? std::optional(ns) : std::nullopt;
    }
    // The same into `ns`; false: nothing. In loops over events, a number stays in a register, and an optional does not.
    [[nodiscard, gnu::always_inline]] bool convert(std::uint64_t cycles, std::int64_t& ns) const {
        if (cycles >= simple_.count) [[unlikely]]
            return convert_other(cycles, ns);
        ns = static_cast<std::int64_t>(simple_.base + cycles);
        return true;
    }
    // What its first values need: only an addition.
    struct Simple {
        std::uint64_t count = std::uint64_t{1} << 63U;  // of those values; 0: it has none
        std::uint64_t base = 0;
    };
    [[nodiscard]] Simple simple() const { return simple_; }

  private:
    [[nodiscard]] bool convert_other(std::uint64_t cycles, std::int64_t& ns) const;

    std::uint64_t frequency_ = 1'000'000'000;
    std::optional<std::int64_t> base_ns_ = 0;
    Simple simple_{};
};

// The first value from `previous` on that has these low bits. `mask` has ones for those, which are fewer than 64.
[[nodiscard]] inline std::uint64_t first_with_low_bits(std::uint64_t previous, std::uint64_t bits, std::uint64_t mask) {
    const std::uint64_t first = (previous & ~mask) | bits;
    return first < previous ? first + mask + 1 : first;
}

// Extends a narrow timestamp of `size` bits to the clock's full value. `previous` is the last known value of the clock.
[[nodiscard]] inline std::uint64_t extend_timestamp(std::uint64_t previous, std::uint64_t timestamp, unsigned size) {
    if (size >= 64) return timestamp;
    return first_with_low_bits(previous, timestamp, (std::uint64_t{1} << size) - 1);
}

}  // namespace leat::ctf
