#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include "base/printable_text.hpp"

namespace leat::cli {

// What people should know beside the result: a line on stderr. That nobody can read it there, because a disk is full or
// a pipe is closed, changes nothing else.
template <class... Args>
void tell(fmt::format_string<Args...> format, Args&&... args) {
    const std::string line = fmt::format(format, std::forward<Args>(args)...) + '\n';
    (void)std::fwrite(line.data(), 1, line.size(), stderr);
}

// A message as people get it. It may quote what a trace, a peer or an option says: any bytes, of any length.
inline std::string readable_message(std::string_view message) {
    constexpr std::size_t kMaxSize = 2000;
    const bool is_long = message.size() > kMaxSize;
    return printable(std::string(message.substr(0, kMaxSize))) + (is_long ? "..." : "");
}

// Prints a warning on stderr, as one line.
inline void print_warning(const std::string& text) { tell("leat: warning: {}", readable_message(text)); }

}  // namespace leat::cli
