#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>

#include "base/result.hpp"
#include "cli/command.hpp"

namespace leat::cli {

// Prints what --help or --version ask for. Returns the exit status: what nobody can read is a failure.
inline int print_help(const CLI::App& app, const CLI::Success& success) {
    const int status = app.exit(success);
    if (std::cout.flush()) return status;
    fmt::print(stderr, "{}: {}\n", app.get_name(), io_error("cannot write").value().message);
    return kExitFailed;
}

}  // namespace leat::cli
