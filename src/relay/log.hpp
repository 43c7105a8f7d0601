#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>

namespace leat::relay {

// One line on stderr: what an operator should know. Any thread.
template <class... Args>
void log(fmt::format_string<Args...> format, Args&&... args) {
    const std::string line = fmt::format("leat-relayd: {}\n", fmt::format(format, std::forward<Args>(args)...));
    std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace leat::relay
