#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.hpp"
#include "viewer/merge/message.hpp"
#include "viewer/read/live_stream.hpp"

namespace leat::viewer {

// The messages of streams that grow, oldest first: a message is told when no stream can say anything older any more.
class LiveMerge {
  public:
    // From its next message on.
    void add(std::shared_ptr<LiveStream> stream) { waiting_.push_back(std::move(stream)); }

    // Goes to the next message; false if a stream must be fed first, or none is left. An error is of one stream, which
    // it ends: go on.
    Result<bool> next();
    [[nodiscard]] const Message& message() const { return ready_.front()->message(); }

    // To be called when streams have been fed, ended or found quiet: nothing here looks for it.
    void refresh();

    [[nodiscard]] bool is_empty() const { return ready_.empty() && waiting_.empty(); }
    // Messages that came too late to be told in order.
    [[nodiscard]] std::uint64_t late_messages() const { return late_messages_; }

  private:
    Result<void> advance_first();
    void hold_back(std::shared_ptr<LiveStream> stream);

    std::vector<std::shared_ptr<LiveStream>> ready_;    // a heap, the oldest message in front
    std::vector<std::shared_ptr<LiveStream>> waiting_;  // have no message
    std::int64_t limit_ns_ = INT64_MAX;                 // of waiting_: what is later must wait
    bool is_told_ = false;                              // the message in front
    std::int64_t now_ns_ = INT64_MIN;
    std::uint64_t late_messages_ = 0;
};

}  // namespace leat::viewer
