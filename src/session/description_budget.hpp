#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <utility>

namespace leat::session {

// What the events of one user may take: descriptions of programs that run, what a daemon keeps of each tracepoint of
// each program, and event classes, in bytes of metadata, of all the user's traces. Somebody whose programs have new
// events without end costs no more than that. Outlives who takes from it. One thread.
class DescriptionBudget {
  public:
    // Hundreds of thousands of events. Parsed, they are some times as large.
    static constexpr std::int64_t kUsual = 256 << 20;

    explicit DescriptionBudget(std::int64_t bytes = kUsual) : left_(bytes) {}

    [[nodiscard]] bool has(std::int64_t bytes) const { return bytes <= left_; }
    // Also what is not there: of another daemon's traces.
    void take(std::int64_t bytes) { left_ -= bytes; }
    void give_back(std::int64_t bytes) { left_ += bytes; }

    // Whether nobody was told yet that there is no more.
    bool take_untold() { return !std::exchange(is_told_, true); }

  private:
    std::int64_t left_;
    bool is_told_ = false;
};

// What somebody has taken from a budget: given back when nobody has it any more.
class DescriptionClaim {
  public:
    DescriptionClaim() = default;
    DescriptionClaim(DescriptionBudget& budget, std::int64_t bytes) : budget_(&budget), bytes_(bytes) {
        budget.take(bytes);
    }
    DescriptionClaim(DescriptionClaim&& other) noexcept
        : budget_(std::exchange(other.budget_, nullptr)), bytes_(other.bytes_) {}
    DescriptionClaim& operator=(DescriptionClaim other) noexcept {
        std::swap(budget_, other.budget_);
        std::swap(bytes_, other.bytes_);
        return *this;
    }
    ~DescriptionClaim() {
        if (budget_ != nullptr) budget_->give_back(bytes_);
    }

  private:
    DescriptionBudget* budget_ = nullptr;
    std::int64_t bytes_ = 0;
};

using DescriptionBudgets = std::map<uid_t, DescriptionBudget>;

}  // namespace leat::session
