#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/result.hpp"

namespace leat::viewer {

// A bound of what is shown, as `--begin` and `--end` of babeltrace2 take it ([babeltrace-2.0], babeltrace2-convert(1)):
// "[YYYY-MM-DD ]HH:MM[:SS[.N]]" in a time zone, or seconds since the origin, "S[.N]"; N has 1 to 9 digits. Besides,
// with a T for the space, and with a Z behind a time of UTC: as lines of JSON have it.
class TimeBound {
  public:
    static Result<TimeBound> parse(std::string_view text, bool is_gmt);

    // Whether it is a time of a day that is not told.
    [[nodiscard]] bool needs_date() const { return is_time_of_day_ && !date_; }
    // Without a date, it is the date of this time.
    [[nodiscard]] Result<std::int64_t> nanoseconds(std::int64_t first_ns) const;

  private:
    struct Date {
        int year, month, day;
    };

    bool is_gmt_ = false;
    bool is_time_of_day_ = false;
    std::optional<Date> date_{};
    int hour_ = 0, minute_ = 0, second_ = 0;
    std::int64_t seconds_ = 0;  // since the origin
    std::int64_t ns_ = 0;
};

// Which events are shown by their times. Both ends belong to it.
class TimeRange {
  public:
    // `range`: "BEGIN,END", perhaps in brackets, in place of both.
    using Text = std::optional<std::string_view>;
    static Result<TimeRange> parse(Text begin, Text end, const Text& range, bool is_gmt);
    // Since the origin. INT64_MIN and INT64_MAX are no bounds.
    static TimeRange of(std::int64_t begin_ns, std::int64_t end_ns);

    [[nodiscard]] bool is_bounded() const { return begin_ || end_ || begin_ns_ != INT64_MIN || end_ns_ != INT64_MAX; }
    // A time before which nothing is in the range, as far as that is known before begin_at().
    [[nodiscard]] std::int64_t earliest() const;
    // To be called before all others, with the time of the first message.
    Result<void> begin_at(std::int64_t first_ns);
    [[nodiscard]] bool is_before(std::int64_t time_ns) const { return time_ns < begin_ns_; }
    [[nodiscard]] bool is_behind(std::int64_t time_ns) const { return time_ns > end_ns_; }
    [[nodiscard]] bool contains(std::int64_t time_ns) const { return !is_before(time_ns) && !is_behind(time_ns); }
    // Whether something from one time to another has a part in it.
    [[nodiscard]] bool touches(std::int64_t begin_ns, std::int64_t end_ns) const {
        return !is_before(end_ns) && !is_behind(begin_ns);
    }

  private:
    std::optional<TimeBound> begin_{};
    std::optional<TimeBound> end_{};
    std::int64_t begin_ns_ = INT64_MIN;
    std::int64_t end_ns_ = INT64_MAX;
};

}  // namespace leat::viewer
