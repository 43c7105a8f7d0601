// Numbers with units, as people write them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace leat::cli {

// Microseconds: a number alone, or with one of the units us, ms, s, m, h.
Result<std::uint64_t> parse_period(std::string_view text);

// Bytes: a number alone, or with K, M, G, T, in either case; KiB and KB are K.
Result<std::uint64_t> parse_size(std::string_view text);

// "10s", "1500ms": what parse_period() takes, in the largest unit.
std::string period_for_people(std::uint64_t period_us);
// "1.5 ms": how long something took.
std::string span_for_people(std::uint64_t ns);
// "50.0 MiB"
std::string size_for_people(std::uint64_t bytes);

}  // namespace leat::cli
