#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "viewer/merge/loser_tree.hpp"
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

    // Goes to the next message, or to the next events; false after the last. An error ends the merge. All events before
    // it have been told.
    Result<bool> next();
    // Some events in their order, of any packets. None: it is a message. Both are valid until next().
    [[nodiscard]] std::span<const FoundEvent> events() const { return events_; }
    [[nodiscard]] const Message& message() const { return readers_[order_.first().source].message(); }
    // Of the packets of all streams that were begun, and of all.
    [[nodiscard]] std::uint64_t bytes_begun() const;
    [[nodiscard]] std::uint64_t bytes_in_all() const;

  private:
    Merge(const RecordedTraces& traces, std::int64_t from_ns);

    // What was found in a stream and is not told yet. None: its message is no event, or has no time. At the end, time
    // is LoserTree::kNoTime.
    struct Found {
        const PacketView* packet = nullptr;
        const ctf::EventPlace* next = nullptr;
        const ctf::EventPlace* end = nullptr;
        std::int64_t after_next_ns = 0;  // time of the one after that: a loop can have it without waiting for `next`
    };

    Result<void> begin();
    // Reads on in the first stream, and gives it its new place.
    Result<void> read_on();
    // Goes to the next message of a stream: its time, or nothing at its end.
    Result<std::optional<std::int64_t>> read(std::size_t index);
    static std::size_t tell_in_a_row(Found& found, std::int64_t others_ns, std::span<FoundEvent> batch);
    void gather_events();
    Result<void> check_order();

    std::vector<StreamReader> readers_;
    std::vector<Found> found_;       // of each
    LoserTree order_;                // by the time of the next message; without one, it comes first
    std::vector<FoundEvent> batch_;  // as many as are told at once
    std::span<const FoundEvent> events_{};
    bool has_begun_ = false;
    bool is_read_ = false;             // whether the first stream's message is not told yet
    std::int64_t now_ns_ = INT64_MIN;  // time of the last message
};

}  // namespace leat::viewer
