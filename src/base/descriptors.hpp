// The descriptors of this process: how many there are, and what to do when there are no more. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/unique_fd.hpp"

namespace leat {

// RLIMIT_NOFILE, as it is now.
std::uint64_t descriptor_limit();
// As far as we may. Returns the limit.
std::uint64_t raise_descriptor_limit();

std::uint64_t open_descriptors();

// Whether only a reserve is left, an eighth, or would be after so many more. What grows with the number of programs
// leaves that to what does not: to clients, and to files that are open for a moment.
bool are_descriptors_scarce(std::size_t wanted = 1);
// The same for who has just opened a descriptor, or could not: then errno says why.
bool is_among_the_last(const UniqueFd& opened);

// `what` is turned away or waits, for want of descriptors: "clients are turned away". Says so in the log, once a minute
// whatever it is, with the remedy.
void log_want_of_descriptors(std::string_view what);

}  // namespace leat
