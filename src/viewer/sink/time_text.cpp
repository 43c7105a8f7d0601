#include "viewer/sink/time_text.hpp"

#include <array>
#include <ctime>

namespace leat::viewer {
namespace {

// "-1.500000000" is one and a half seconds before the origin.
void append_seconds(TextBuffer& buffer, std::int64_t time_ns) {
    const auto bits = static_cast<std::uint64_t>(time_ns);
    const std::uint64_t distance = time_ns < 0 ? -bits : bits;
    if (time_ns < 0) buffer.append('-');
    buffer.append_number(distance / kNanosecondsPerSecond);
    buffer.append('.');
    append_nanoseconds(buffer, distance % kNanosecondsPerSecond);
}

}  // namespace

void append_nanoseconds(TextBuffer& buffer, std::uint64_t ns) {
    std::array<char, 9> digits;
    for (auto digit = digits.rbegin(); digit != digits.rend(); ++digit) {
        *digit = static_cast<char>('0' + ns % 10);
        ns /= 10;
    }
    buffer.append(std::string_view(digits.data(), digits.size()));
}

void TimeText::append(TextBuffer& buffer, std::int64_t time_ns) {
    if (format_ == TimeFormat::kSeconds) return append_seconds(buffer, time_ns);
    // Rounded down, so that nanoseconds count forward before the origin too.
    std::int64_t second = time_ns / kNanosecondsPerSecond;
    std::int64_t ns = time_ns % kNanosecondsPerSecond;
    if (ns < 0) {
        ns += kNanosecondsPerSecond;
        --second;
    }
    if (!has_second_ || second != second_) format_second(second);
    buffer.append(second_text_);
    append_nanoseconds(buffer, static_cast<std::uint64_t>(ns));
}

void TimeText::format_second(std::int64_t second) {
    has_second_ = true;
    second_ = second;
    std::tm time{};
    const std::time_t seconds = second;
    const bool is_known = (is_gmt_ ? ::gmtime_r(&seconds, &time) : ::localtime_r(&seconds, &time)) != nullptr;
    if (!is_known) {
        second_text_ = fmt::format("{}.", second);
        return;
    }
    second_text_.clear();
    if (format_ == TimeFormat::kDate)
        second_text_ = fmt::format("{:04}-{:02}-{:02} ", time.tm_year + 1900, time.tm_mon + 1, time.tm_mday);
    second_text_ += fmt::format("{:02}:{:02}:{:02}.", time.tm_hour, time.tm_min, time.tm_sec);
}

}  // namespace leat::viewer
