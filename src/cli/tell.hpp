#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <utility>

namespace leat::cli {

// What people should know beside the result: a line on stderr. That nobody can read it there, because a disk is full or
// a pipe is closed, changes nothing else.
template <class... Args>
void tell(fmt::format_string<Args...> format, Args&&... args) {
    const std::string line = fmt::format(format, std::forward<Args>(args)...) + '\n';
    (void)std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace leat::cli
