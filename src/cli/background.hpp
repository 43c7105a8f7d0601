#pragma once

#include <string>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace leat::cli {

// A program that goes on in the background once it is ready: until then the process that was started waits, so that
// whoever starts it learns how that went.
class Background {
  public:
    // Returns in the child. The parent prints what the child reports, and ends with 0 or 1. `closes_console`: standard
    // input, output and error of the child lead nowhere. No threads yet.
    static Result<Background> enter(bool closes_console);

    // The parent prints `line` and ends with 0.
    void report_ready(const std::string& line);
    // The parent prints `line` on standard error and ends with 1.
    void report_failure(const std::string& line);

  private:
    explicit Background(UniqueFd report) : report_(std::move(report)) {}
    void report(char status, const std::string& line);

    UniqueFd report_;
};

}  // namespace leat::cli
