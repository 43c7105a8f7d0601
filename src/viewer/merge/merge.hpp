#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.hpp"
#include "viewer/merge/message.hpp"
#include "viewer/read/recorded_trace.hpp"
#include "viewer/read/stream_reader.hpp"

namespace leat::viewer {

// Tells the messages of all streams of some traces, oldest first. If two are of the same age, the earlier stream comes
// first.
class Merge {
  public:
    // The traces must outlive the merge. Refuses traces whose clocks cannot be compared.
    static Result<Merge> make(const std::vector<std::unique_ptr<RecordedTrace>>& traces);

    // Goes to the next message; false after the last. An error ends the merge. All events before it have been told.
    Result<bool> next();
    [[nodiscard]] const Message& message() const { return readers_[heap_.front()].message(); }

  private:
    explicit Merge(const std::vector<std::unique_ptr<RecordedTrace>>& traces);

    // Reads on in the stream at the end of the heap. Puts the stream in its new place, or removes it.
    Result<void> advance_last();
    [[nodiscard]] bool is_later(std::size_t left, std::size_t right) const;
    Result<void> check_order();

    std::vector<StreamReader> readers_;
    std::vector<std::size_t> heap_;  // of indices into readers_, the reader of the oldest message in front
    bool has_begun_ = false;
    std::int64_t now_ns_ = INT64_MIN;  // time of the last message
};

}  // namespace leat::viewer
