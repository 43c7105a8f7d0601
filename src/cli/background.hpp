#pragma once

#include <string>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace leat::cli {

// Moves the program to the background. The process that was started waits until the program is ready, so that its
// caller learns how the start went.
class Background {
  public:
    // Returns in the child. The parent prints what the child reports, and ends with 0 or 1. `closes_console`: standard
    // input, output and error of the child lead to /dev/null. Call it before any thread is started.
    static Result<Background> enter(const char* program, bool closes_console);

    // The parent prints `line`, if it is not empty, and ends with 0.
    void report_ready(const std::string& line);
    // The parent prints `line` on standard error and ends with 1.
    void report_failure(const std::string& line);

  private:
    explicit Background(UniqueFd report) : report_(std::move(report)) {}
    void report(char status, const std::string& line);

    UniqueFd report_;
};

}  // namespace leat::cli
