#include "viewer/sink/time_text.hpp"

#include <fmt/format.h>

#include <ctime>
#include <string>

#include "viewer/sink/decimal_text.hpp"

namespace leat::viewer {
namespace {

constexpr auto kSecond = static_cast<std::uint64_t>(kNanosecondsPerSecond);

}  // namespace

char* write_seconds(char* at, std::uint64_t ns) {
    if (ns < kSecond)
        *at++ = '0';
    else
        at = write_decimal(at, ns / kSecond);
    *at++ = '.';
    return write_nine_digits(at, static_cast<std::uint32_t>(ns % kSecond));
}

char* TimeText::write(char* at, std::int64_t time_ns) {
    if (format_ == TimeFormat::kSeconds) {
        // "-1.500000000" is one and a half seconds before the origin.
        const auto bits = static_cast<std::uint64_t>(time_ns);
        if (time_ns < 0) *at++ = '-';
        return write_seconds(at, time_ns < 0 ? -bits : bits);
    }
    auto ns = static_cast<std::uint64_t>(time_ns) - second_begin_;
    if (!has_second_ || ns >= kSecond) {
        begin_second(time_ns);
        ns = static_cast<std::uint64_t>(time_ns) - second_begin_;
    }
    return write_nine_digits(second_text_.write(at), static_cast<std::uint32_t>(ns));
}

// Rounded down, so that nanoseconds count forward before the origin too.
void TimeText::begin_second(std::int64_t time_ns) {
    const std::int64_t second = time_ns / kNanosecondsPerSecond - (time_ns % kNanosecondsPerSecond < 0 ? 1 : 0);
    second_begin_ = static_cast<std::uint64_t>(second) * kSecond;
    has_second_ = true;
    format_second(second);
}

void TimeText::format_second(std::int64_t second) {
    std::tm time{};
    const std::time_t seconds = second;
    const bool is_known = (is_gmt_ ? ::gmtime_r(&seconds, &time) : ::localtime_r(&seconds, &time)) != nullptr;
    if (!is_known) {
        second_text_ = PaddedText(fmt::format("{}.", second));
        return;
    }
    std::string date;
    if (format_ != TimeFormat::kTimeOfDay)
        date = fmt::format("{:04}-{:02}-{:02}{}", time.tm_year + 1900, time.tm_mon + 1, time.tm_mday,
                           format_ == TimeFormat::kIso ? 'T' : ' ');
    second_text_ = PaddedText(fmt::format("{}{:02}:{:02}:{:02}.", date, time.tm_hour, time.tm_min, time.tm_sec));
}

}  // namespace leat::viewer
