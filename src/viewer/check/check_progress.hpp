#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>

#include "base/result.hpp"

namespace leat::viewer {

// How far a check, or a repair, has come: it goes through all files in several passes.
class CheckProgress {
  public:
    // `passes`: how many there will be, at least one.
    explicit CheckProgress(unsigned passes) : passes_(passes) {}

    // `look` is called often, from within the check.
    void watch(std::function<void()> look) { look_ = std::move(look); }
    // `may_go_on` is asked before each piece that is written. An error ends the repair.
    void ask(std::function<Result<void>()> may_go_on) { may_go_on_ = std::move(may_go_on); }
    // Of each pass, a part of the bytes of the files.
    [[nodiscard]] std::uint64_t bytes_begun() const { return (passes_done_ * bytes_ + done_) / passes_; }
    [[nodiscard]] std::uint64_t bytes_in_all() const { return bytes_; }

    // For the check. `bytes`: of all files, in each pass.
    void begin(std::uint64_t bytes) { bytes_ = bytes; }
    // What is read more than once in a pass counts as often, up to the end of the pass.
    void add(std::uint64_t bytes) {
        done_ = std::min(done_ + bytes, bytes_);
        if (look_) look_();
    }
    [[nodiscard]] Result<void> check() const { return may_go_on_ ? may_go_on_() : Result<void>(); }
    void end_pass() {
        ++passes_done_;
        done_ = 0;
    }

  private:
    unsigned passes_;
    std::function<void()> look_{};
    std::function<Result<void>()> may_go_on_{};
    std::uint64_t bytes_ = 0;
    std::uint64_t passes_done_ = 0;
    std::uint64_t done_ = 0;  // of the present pass
};

}  // namespace leat::viewer
