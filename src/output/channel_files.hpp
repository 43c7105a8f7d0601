#pragma once

#include <string>

#include "trace/file_limits.hpp"

namespace leat::output {

// What an output must know of a channel. Its streams are called CHANNEL_RING.
struct ChannelFiles {
    std::string name;
    trace::FileLimits limits{};
};

}  // namespace leat::output
