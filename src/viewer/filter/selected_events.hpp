#pragma once

#include <functional>
#include <optional>
#include <span>
#include <utility>

#include "base/result.hpp"
#include "viewer/filter/event_expression.hpp"
#include "viewer/filter/filter_expression.hpp"
#include "viewer/filter/stream_intersection.hpp"
#include "viewer/filter/time_range.hpp"
#include "viewer/merge/merge.hpp"
#include "viewer/read/recorded_trace.hpp"

namespace leat::viewer {

// Which events somebody wants to see.
struct Selection {
    std::optional<FilterExpression> expression{};
    TimeRange range{};
    bool is_of_all_streams = false;  // only while all streams of their trace were active

    [[nodiscard]] std::optional<EventExpression> filter() const {
        return expression ? std::optional<EventExpression>(*expression) : std::nullopt;
    }
};

// The events of traces on disk that are selected, in the order of their times, unless nobody needs that, and the losses
// among them.
class SelectedEvents {
  public:
    // The traces must outlive this object. An error names a field that no event of theirs has. `order`: who needs none
    // is faster, unless a range of times is selected.
    static Result<SelectedEvents> make(const RecordedTraces& traces, const Selection& selection,
                                       Merge::Order order = Merge::Order::kByTime);

    // Goes to the next events or to the next loss; false after the last. An error ends the traces. All before it has
    // been told.
    Result<bool> next();
    // One or more events in their order. None: it is a loss. Both are valid until next().
    [[nodiscard]] std::span<const FoundEvent> events() const { return events_; }
    [[nodiscard]] const Message& loss() const { return merge_.message(); }

    // Calls it now and then while events are looked at, also if none is selected.
    void watch(std::function<void()> look) { look_ = std::move(look); }
    // Likewise. An error ends the traces.
    void check(std::function<Result<void>()> check) { check_ = std::move(check); }
    [[nodiscard]] std::uint64_t bytes_begun() const { return merge_.bytes_begun(); }
    [[nodiscard]] std::uint64_t bytes_in_all() const { return merge_.bytes_in_all(); }

    // Calls `on_events(events)` for some events after the others, which returns Result<bool>: whether to go on; and
    // `on_loss(message)`, which returns Result<void>.
    template <class OnEvents, class OnLoss>
    Result<void> for_each(OnEvents on_events, OnLoss on_loss) {
        while (LEAT_TRY(next())) {
            if (events_.empty()) {
                LEAT_TRY(on_loss(loss()));
            } else if (!LEAT_TRY(on_events(events_))) {
                return {};
            }
        }
        return {};
    }

  private:
    SelectedEvents(Merge merge, const Selection& selection, std::optional<StreamIntersection> intersection)
        : merge_(std::move(merge)),
          filter_(selection.filter()),
          range_(selection.range),
          intersection_(std::move(intersection)) {}

    // Puts selected events of those that are found in front. False: there are none.
    Result<bool> select();
    Result<bool> is_selected(const FoundEvent& event);
    [[nodiscard]] bool is_selected(const Message& message) const;

    Merge merge_;
    std::function<void()> look_{};
    std::function<Result<void>()> check_{};
    std::optional<EventExpression> filter_;
    TimeRange range_;
    std::optional<StreamIntersection> intersection_;
    bool has_begun_ = false;
    bool is_over_ = false;                 // an event behind the range was found
    std::span<const FoundEvent> found_{};  // not looked at yet
    std::span<const FoundEvent> events_{};
};

}  // namespace leat::viewer
