#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace leat::viewer {

// Something that is wrong with a trace.
struct Finding {
    std::filesystem::path file{};
    std::optional<std::uint64_t> offset{};  // bytes; none: it is about the whole file
    std::string what{};
};

// All that is wrong. Beyond kMost it is counted, but not told.
class Findings {
  public:
    static constexpr std::size_t kMost = 10'000;

    void add(const std::filesystem::path& file, std::optional<std::uint64_t> offset, std::string what) {
        ++count_;
        if (told_.size() < kMost) told_.push_back({file, offset, std::move(what)});
    }

    void add(const Findings& others) {
        const std::size_t room = std::min(kMost - told_.size(), others.told_.size());
        told_.insert(told_.end(), others.told_.begin(), others.told_.begin() + static_cast<std::ptrdiff_t>(room));
        count_ += others.count_;
    }

    [[nodiscard]] const std::vector<Finding>& told() const { return told_; }
    [[nodiscard]] std::uint64_t count() const { return count_; }

  private:
    std::vector<Finding> told_{};
    std::uint64_t count_ = 0;
};

}  // namespace leat::viewer
