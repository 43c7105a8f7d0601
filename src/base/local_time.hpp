#pragma once

#include <cstdint>
#include <string>

namespace leat {

// Seconds since 1970 in the local time, as strftime() writes it (not %Z); the number itself if no date has it.
std::string local_time_text(std::uint64_t seconds, const char* format);
// The same of now.
std::string local_time_text(const char* format);

// For a child of fork(): another thread of the parent may have been in localtime_r(), and nobody gives the lock of that
// back in the child. Any thread.
void remember_time_zone();
// From now on, this process goes by the offset to UTC that was remembered last; by UTC itself, if none was.
void go_by_remembered_time_zone();

}  // namespace leat
