#pragma once

#include <cstdint>
#include <string>

#include "base/result.hpp"
#include "viewer/merge/live_merge.hpp"
#include "viewer/sink/text_sink.hpp"

namespace leat::cli {

// On stderr, as one line.
void print_warning(const std::string& text);

// Prints what a merge of growing streams has to tell, as soon as it may.
class LivePrinter {
  public:
    explicit LivePrinter(const viewer::TextOptions& options);

    [[nodiscard]] viewer::LiveMerge& merge() { return merge_; }
    // All that is certain by now; flush() brings it to the reader.
    Result<void> print();
    Result<void> flush() { return sink_.flush(); }
    // The outcome of it all, when `others` streams were cut short elsewhere: an error if some could not be shown to
    // their end.
    [[nodiscard]] Result<void> outcome(std::uint64_t others) const;
    // Nobody reads any more.
    [[nodiscard]] bool is_closed() const { return sink_.is_closed(); }

  private:
    viewer::TextSink sink_;
    viewer::LiveMerge merge_;
    bool has_warned_ = false;
    std::uint64_t cut_short_ = 0;
};

}  // namespace leat::cli
