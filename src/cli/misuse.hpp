// Wrong use of the command line that CLI11 cannot see. It is thrown as CLI11's own errors are: so the command ends with
// kExitUsage, and the message says where help is.
#pragma once

#include <CLI/CLI.hpp>
#include <utility>

#include "base/result.hpp"

namespace leat::cli {

template <class... Args>
[[noreturn]] void misuse(fmt::format_string<Args...> format, Args&&... args) {
    throw CLI::ValidationError(fmt::format(format, std::forward<Args>(args)...));
}

// What the text of an option means.
template <class T>
T meaning_of(Result<T> parsed) {
    if (!parsed) misuse("{}", parsed.error().message);
    return *std::move(parsed);
}

}  // namespace leat::cli
