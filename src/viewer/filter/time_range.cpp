#include "viewer/filter/time_range.hpp"

#include <charconv>
#include <chrono>
#include <cstddef>
#include <ctime>
#include <string>

namespace leat::viewer {
namespace {

constexpr std::int64_t kNanosecondsPerSecond = 1'000'000'000;

// Takes text from its front, piece by piece.
class Scanner {
  public:
    explicit Scanner(std::string_view text) : text_(text) {}

    bool take(char c) {
        if (text_.empty() || text_.front() != c) return false;
        text_.remove_prefix(1);
        return true;
    }
    // A number of `digits` digits; 0: of any number of them.
    template <class T>
    bool number(T& value, std::size_t digits = 0) {
        const std::size_t count = std::min(text_.find_first_not_of("0123456789"), text_.size());
        if (count == 0 || (digits != 0 && count != digits)) return false;
        const auto [end, error] = std::from_chars(text_.data(), text_.data() + count, value);
        text_.remove_prefix(count);
        return error == std::errc{};
    }
    // Digits behind the point.
    bool fraction(std::int64_t& ns) {
        const std::size_t count = std::min(text_.find_first_not_of("0123456789"), text_.size());
        if (count == 0 || count > 9) return false;
        std::string digits(text_.substr(0, count));
        digits.append(9 - count, '0');
        std::from_chars(digits.data(), digits.data() + digits.size(), ns);
        text_.remove_prefix(count);
        return true;
    }
    [[nodiscard]] bool is_at_end() const { return text_.empty(); }
    [[nodiscard]] std::string_view rest() const { return text_; }

  private:
    std::string_view text_;
};

std::string_view without_brackets(std::string_view text) {
    if (text.starts_with('[') && text.ends_with(']')) return text.substr(1, text.size() - 2);
    return text;
}

}  // namespace

Result<TimeBound> TimeBound::parse(std::string_view text, bool is_gmt) {
    TimeBound bound;
    bound.is_gmt_ = is_gmt;
    const auto wrong = [&] {
        return refused(
            "\"{}\" is no time: use [YYYY-MM-DD ]HH:MM[:SS[.NANOSECONDS]], with a Z behind it for UTC, or "
            "SECONDS[.NANOSECONDS] since 1970",
            text);
    };
    Scanner scanner(text);
    const auto end = [&]() -> Result<TimeBound> {
        if (scanner.take('.') && !scanner.fraction(bound.ns_)) return wrong();
        if (bound.is_time_of_day_ && scanner.take('Z')) bound.is_gmt_ = true;
        if (!scanner.is_at_end()) return wrong();
        return bound;
    };
    if (text.find(':') == std::string_view::npos) {
        const bool is_negative = scanner.take('-');
        if (!scanner.number(bound.seconds_)) return wrong();
        auto parsed = end();
        if (parsed && is_negative) {
            parsed->seconds_ = -parsed->seconds_;
            parsed->ns_ = -parsed->ns_;
        }
        return parsed;
    }
    bound.is_time_of_day_ = true;
    if (text.find_first_of(" T") != std::string_view::npos) {
        Date date{};
        if (!scanner.number(date.year, 4) || !scanner.take('-') || !scanner.number(date.month, 2) ||
            !scanner.take('-') || !scanner.number(date.day, 2) || !(scanner.take(' ') || scanner.take('T')))
            return wrong();
        if (date.month < 1 || date.month > 12 || date.day < 1 || date.day > 31) return wrong();
        bound.date_ = date;
    }
    if (!scanner.number(bound.hour_, 2) || !scanner.take(':') || !scanner.number(bound.minute_, 2)) return wrong();
    const bool has_seconds = scanner.take(':');
    if (has_seconds && !scanner.number(bound.second_, 2)) return wrong();
    if (bound.hour_ > 23 || bound.minute_ > 59 || bound.second_ > 60) return wrong();
    return has_seconds || scanner.rest() == "Z" || scanner.is_at_end() ? end() : wrong();
}

Result<std::int64_t> TimeBound::nanoseconds(std::int64_t first_ns) const {
    std::int64_t seconds = seconds_;
    if (is_time_of_day_) {
        std::tm time{};
        const std::time_t first = std::chrono::floor<std::chrono::seconds>(std::chrono::nanoseconds(first_ns)).count();
        (is_gmt_ ? ::gmtime_r(&first, &time) : ::localtime_r(&first, &time));
        if (date_) {
            time.tm_year = date_->year - 1900;
            time.tm_mon = date_->month - 1;
            time.tm_mday = date_->day;
        }
        time.tm_hour = hour_;
        time.tm_min = minute_;
        time.tm_sec = second_;
        time.tm_isdst = -1;
        seconds = is_gmt_ ? ::timegm(&time) : ::mktime(&time);
    }
    std::int64_t result = 0;
    if (__builtin_mul_overflow(seconds, kNanosecondsPerSecond, &result) || __builtin_add_overflow(result, ns_, &result))
        return refused("a bound of time is out of range");
    return result;
}

Result<TimeRange> TimeRange::parse(Text begin, Text end, const Text& range, bool is_gmt) {
    if (range) {
        if (begin || end) return refused("--timerange stands for --begin and --end: use one of them");
        const std::string_view both = without_brackets(*range);
        const std::size_t comma = both.find(',');
        if (comma == std::string_view::npos) return refused("\"{}\" is no range of times: use BEGIN,END", *range);
        begin = both.substr(0, comma);
        end = both.substr(comma + 1);
    }
    TimeRange parsed;
    if (begin) parsed.begin_ = LEAT_TRY(TimeBound::parse(*begin, is_gmt));
    if (end) parsed.end_ = LEAT_TRY(TimeBound::parse(*end, is_gmt));
    for (const auto& [bound, text] : {std::pair(parsed.begin_, begin), std::pair(parsed.end_, end)})
        if (bound && !bound->needs_date() && !bound->nanoseconds(0))
            return refused("\"{}\" is out of range: times are from 1677 to 2262", *text);
    // Wrong whatever the trace is. What needs its date is compared when that is known.
    const bool needs_date =
        (parsed.begin_ && parsed.begin_->needs_date()) || (parsed.end_ && parsed.end_->needs_date());
    if (!needs_date) LEAT_TRY(TimeRange(parsed).begin_at(0));
    return parsed;
}

TimeRange TimeRange::of(std::int64_t begin_ns, std::int64_t end_ns) {
    TimeRange range;
    range.begin_ns_ = begin_ns;
    range.end_ns_ = end_ns;
    return range;
}

std::int64_t TimeRange::earliest() const {
    if (!begin_) return begin_ns_;
    // Then the first event must be read, which has the date. What is out of range is refused later.
    const bool needs_first = begin_->needs_date() || (end_ && end_->needs_date());
    return needs_first ? INT64_MIN : begin_->nanoseconds(0).value_or(INT64_MIN);
}

Result<void> TimeRange::begin_at(std::int64_t first_ns) {
    if (begin_) begin_ns_ = LEAT_TRY(begin_->nanoseconds(first_ns));
    if (end_) end_ns_ = LEAT_TRY(end_->nanoseconds(first_ns));
    if (begin_ns_ > end_ns_) return refused("the end of the range of times lies before its begin");
    return {};
}

}  // namespace leat::viewer
