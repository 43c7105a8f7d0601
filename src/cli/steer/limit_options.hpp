// When a recording ends by itself: options of record and create.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "session/limits.hpp"

namespace leat::cli {

struct LimitOptions {
    std::optional<std::string> duration{};
    std::optional<std::string> max_size{};
};

void add_limit_options(CLI::App& command, LimitOptions& options);
Result<session::Limits> limits_of(const LimitOptions& options);

// "stopped after 10s", "limit of 50.0 MiB reached".
std::string text_of_stop(session::StoppedBy by, const session::Limits& limits);

}  // namespace leat::cli
