#pragma once

#include <CLI/CLI.hpp>
#include <iostream>

#include "base/result.hpp"
#include "cli/command.hpp"
#include "cli/tell.hpp"

namespace leat::cli {

// Prints what --help or --version ask for. Returns the exit status: what nobody can read is a failure.
inline int print_help(const CLI::App& app, const CLI::Success& success) {
    const int status = app.exit(success);
    if (std::cout.flush()) return status;
    tell("{}: {}", app.get_name(), io_error("cannot write").value().message);
    return kExitFailed;
}

}  // namespace leat::cli
