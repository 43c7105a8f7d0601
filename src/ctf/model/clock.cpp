#include "ctf/model/clock.hpp"

#include <algorithm>
#include <utility>

namespace leat::ctf {
namespace {

constexpr std::int64_t kNanosecondsPerSecond = 1'000'000'000;

// Frequencies other than 1 GHz use doubles and truncate, as babeltrace2 does, so that both print the same.
std::optional<std::int64_t> cycles_to_ns(std::uint64_t cycles, std::uint64_t frequency) {
    constexpr double kTooLarge = 9223372036854775808.0;  // 2^63
    if (frequency == static_cast<std::uint64_t>(kNanosecondsPerSecond)) {
        if (cycles > static_cast<std::uint64_t>(INT64_MAX)) return std::nullopt;
        return static_cast<std::int64_t>(cycles);
    }
    const double ns = 1e9 * static_cast<double>(cycles) / static_cast<double>(frequency);
    if (ns >= kTooLarge) return std::nullopt;
    return static_cast<std::int64_t>(ns);
}

std::optional<std::int64_t> add(std::optional<std::int64_t> left, std::optional<std::int64_t> right) {
    std::int64_t sum = 0;
    if (!left || !right || __builtin_add_overflow(*left, *right, &sum)) return std::nullopt;
    return sum;
}

std::optional<std::int64_t> seconds_to_ns(std::int64_t seconds) {
    std::int64_t ns = 0;
    if (__builtin_mul_overflow(seconds, kNanosecondsPerSecond, &ns)) return std::nullopt;
    return ns;
}

}  // namespace

bool move_clock(ClockClass& clock, const ClockShift& shift) {
    // Offsets in cycles have no sign: the part of a second is always one forward.
    const std::int64_t part = (shift.ns % kNanosecondsPerSecond + kNanosecondsPerSecond) % kNanosecondsPerSecond;
    const std::int64_t whole = shift.ns / kNanosecondsPerSecond - (shift.ns % kNanosecondsPerSecond < 0 ? 1 : 0);
    const auto cycles = static_cast<std::uint64_t>(static_cast<unsigned __int128>(part) * clock.frequency /
                                                   static_cast<std::uint64_t>(kNanosecondsPerSecond));
    ClockClass moved = clock;
    if (__builtin_add_overflow(shift.seconds, whole, &moved.offset_s) ||
        __builtin_add_overflow(moved.offset_s, clock.offset_s, &moved.offset_s) ||
        __builtin_add_overflow(clock.offset, cycles, &moved.offset))
        return false;
    clock = std::move(moved);
    return true;
}

Clock::Clock(const ClockClass& clock_class)
    : frequency_(clock_class.frequency), base_ns_(std::nullopt), simple_{.count = 0, .base = 0} {
    // The whole seconds are taken off first, because the doubles below would lose the low digits of a large offset.
    const auto whole_seconds = static_cast<std::int64_t>(clock_class.offset / frequency_);
    std::int64_t seconds = 0;
    if (__builtin_add_overflow(clock_class.offset_s, whole_seconds, &seconds)) return;
    base_ns_ = add(seconds_to_ns(seconds), cycles_to_ns(clock_class.offset % frequency_, frequency_));
    if (!base_ns_ || frequency_ != static_cast<std::uint64_t>(kNanosecondsPerSecond)) return;
    simple_.base = static_cast<std::uint64_t>(*base_ns_);
    simple_.count = static_cast<std::uint64_t>(INT64_MAX - std::max<std::int64_t>(*base_ns_, 0)) + 1;
}

bool Clock::convert_other(std::uint64_t cycles, std::int64_t& ns) const {
    const std::optional<std::int64_t> time_ns = add(base_ns_, cycles_to_ns(cycles, frequency_));
    ns = time_ns.value_or(0);
    return time_ns.has_value();
}

}  // namespace leat::ctf
