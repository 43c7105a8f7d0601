#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "viewer/merge/found_run.hpp"
#include "viewer/merge/loser_tree.hpp"
#include "viewer/merge/message.hpp"
#include "viewer/merge/time_slice.hpp"
#include "viewer/read/recorded_trace.hpp"
#include "viewer/read/stream_reader.hpp"

namespace leat::viewer {

// Tells the messages of all streams of some traces, oldest first. If two are of the same age, the earlier stream comes
// first.
//
// Who needs no order has one stream after the other, each in its own order.
//
// A tree knows which stream is the first. Where there are many streams, and none tells of anything but events for a
// while, slices of time are sorted instead, which takes half the time; the tree is built anew when it is needed.
class Merge {
  public:
    enum class Order : std::uint8_t { kByTime, kAny };

    // The traces must outlive the merge. Refuses traces whose clocks cannot be compared. `from_ns`: packets that end
    // before this time need not be told.
    static Result<Merge> make(const RecordedTraces& traces, std::int64_t from_ns = INT64_MIN,
                              Order order = Order::kByTime);

    // Goes to the next message, or to the next events; false after the last. An error ends the merge. All events before
    // it have been told; without an order, all of the other streams, and of several errors the first stream's is told.
    Result<bool> next();
    // Some events in their order, of any packets. None: it is a message. Both are valid until next().
    [[nodiscard]] std::span<const FoundEvent> events() const { return events_; }
    [[nodiscard]] const Message& message() const { return readers_[first_].message(); }
    // Of the packets of all streams that were begun, and of all.
    [[nodiscard]] std::uint64_t bytes_begun() const;
    [[nodiscard]] std::uint64_t bytes_in_all() const;

  private:
    Merge(const RecordedTraces& traces, std::int64_t from_ns, Order order);

    // When slices are worth it. To make one costs about as much for each stream as the tree costs for an event.
    class Pace {
      public:
        explicit Pace(std::size_t streams);

        [[nodiscard]] bool allows_slices() const { return makes_slices_ || told_ >= wait_; }
        void note_told_by_tree(std::size_t events) { told_ += events; }
        // Whether one with so many events was worth it, or those before it made up for that.
        [[nodiscard]] bool accepts(std::size_t events);

      private:
        std::size_t streams_;
        std::size_t wait_;  // for so many events, the tree is good enough
        std::size_t next_wait_;
        std::size_t told_ = 0;  // by the tree
        bool makes_slices_ = false;
        std::size_t credit_ = 0;  // events that were told beyond those that a slice must have
    };

    Result<void> begin();
    // Reads on in the first stream, and gives it its new place.
    Result<void> read_on();
    // Goes to the next message of a stream: its time, or that it has ended.
    Result<LoserTree::Entry> read(std::size_t index);
    bool find_first();
    bool make_slice();
    TimeSlice::Limit find_limit();
    void tell_slice();
    void build_order();
    static std::size_t tell_in_a_row(FoundRun& found, std::int64_t others_ns, std::span<FoundEvent> batch);
    void gather_events();
    void tell_message();
    Result<bool> next_in_any_order();
    Result<bool> next_of_first();
    Result<void> check_order();

    Order kind_;
    std::vector<StreamReader> readers_;
    std::vector<FoundRun> found_;          // of each
    std::vector<LoserTree::Entry> heads_;  // of each: when its message comes, if it is not one of those
    LoserTree order_;                      // by the time of the next message; without one, it comes first
    bool is_order_old_ = false;            // slices have been told since
    TimeSlice slice_;
    std::size_t first_ = 0;  // the stream whose message is told
    Pace pace_;
    std::vector<FoundEvent> batch_;  // as many as are told at once
    std::span<const FoundEvent> events_{};
    bool has_begun_ = false;
    bool is_read_ = false;             // whether the first stream's message is not told yet
    std::int64_t now_ns_ = INT64_MIN;  // time of the last message
    std::optional<Error> error_{};     // of a stream, while others are told
};

}  // namespace leat::viewer
