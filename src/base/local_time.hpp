#pragma once

#include <cstdint>
#include <string>

namespace leat {

// Seconds since 1970 in the local time, as strftime() writes it; the number itself if no date has it.
std::string local_time_text(std::uint64_t seconds, const char* format);
// The same of now.
std::string local_time_text(const char* format);

}  // namespace leat
