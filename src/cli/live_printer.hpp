#pragma once

#include <cstdint>
#include <optional>

#include "base/result.hpp"
#include "viewer/merge/live_merge.hpp"
#include "viewer/sink/text_sink.hpp"

namespace leat::cli {

// Merges growing streams and prints their events as soon as their order is certain.
class LivePrinter {
  public:
    LivePrinter(const viewer::TextOptions& options, std::optional<viewer::EventExpression> filter);

    [[nodiscard]] viewer::LiveMerge& merge() { return merge_; }
    // Prints all events whose order is certain by now. flush() then writes them out.
    Result<void> print();
    Result<void> flush() { return sink_.flush(); }
    // An error if some streams could not be shown to their end: those that were cut short here, and `others` that were
    // cut short elsewhere.
    [[nodiscard]] Result<void> outcome(std::uint64_t others) const;
    // Whether nobody reads the output any more.
    [[nodiscard]] bool is_closed() const { return sink_.is_closed(); }

  private:
    viewer::TextSink sink_;
    viewer::LiveMerge merge_;
    bool has_warned_ = false;
    std::uint64_t cut_short_ = 0;
};

}  // namespace leat::cli
