#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.hpp"
#include "viewer/merge/message.hpp"
#include "viewer/read/live_stream.hpp"

namespace leat::viewer {

// Tells the messages of growing streams, oldest first. A message is told when no stream can bring an older one.
class LiveMerge {
  public:
    // The merge takes the stream's messages from its next one on.
    void add(std::shared_ptr<LiveStream> stream) { waiting_.push_back(std::move(stream)); }

    // Goes to the next message; false if a stream must be fed first, or none is left. An error belongs to one stream
    // and ends that stream only: call next() again.
    Result<bool> next();
    [[nodiscard]] const Message& message() const { return ready_.front()->message(); }

    // The caller must call this when streams were fed, ended or found quiet. The merge does not check by itself.
    void refresh();

    [[nodiscard]] bool is_empty() const { return ready_.empty() && waiting_.empty(); }
    // Events that came too late for their place in the order.
    [[nodiscard]] std::uint64_t late_events() const { return late_events_; }

  private:
    Result<void> advance_first();
    void hold_back(std::shared_ptr<LiveStream> stream);

    std::vector<std::shared_ptr<LiveStream>> ready_;    // a heap, the oldest message in front
    std::vector<std::shared_ptr<LiveStream>> waiting_;  // have no message
    std::int64_t limit_ns_ = INT64_MAX;                 // later messages must wait for waiting_
    bool is_told_ = false;                              // whether the message in front was told
    std::int64_t newest_ns_ = INT64_MIN;                // of any event so far
    std::uint64_t late_events_ = 0;
};

}  // namespace leat::viewer
