#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
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
    // The traces must outlive the merge. Refuses traces whose clocks cannot be compared. `from_ns`: packets that end
    // before this time need not be told.
    static Result<Merge> make(const RecordedTraces& traces, std::int64_t from_ns = INT64_MIN);

    // Goes to the next message; false after the last. An error ends the merge. All events before it have been told.
    Result<bool> next();
    [[nodiscard]] const Message& message() const { return readers_[heap_.front().reader].message(); }
    // After an event: those of its packet that come next, and are found already. next() goes on after them.
    [[nodiscard]] std::span<const ctf::EventPlace> take_run();
    // Of the packets of all streams that were begun, and of all.
    [[nodiscard]] std::uint64_t bytes_begun() const;
    [[nodiscard]] std::uint64_t bytes_in_all() const;

  private:
    Merge(const RecordedTraces& traces, std::int64_t from_ns);

    // A stream by the time of its next message.
    struct Entry {
        std::int64_t time_ns;  // INT64_MIN: it has none, so it comes first
        std::size_t reader;

        auto operator<=>(const Entry&) const = default;
    };

    Result<void> begin();
    // Reads on in the first stream, and gives it its new place.
    Result<void> advance_first();
    [[nodiscard]] Entry entry_of(std::size_t reader) const;
    void sink_first();
    Result<void> check_order();

    std::vector<StreamReader> readers_;
    std::vector<Entry> heap_;  // the least in front
    bool has_begun_ = false;
    std::int64_t now_ns_ = INT64_MIN;  // time of the last message
};

}  // namespace leat::viewer
