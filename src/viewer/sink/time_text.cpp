#include "viewer/sink/time_text.hpp"

#include <array>
#include <charconv>
#include <cstring>
#include <ctime>
#include <string>

namespace leat::viewer {
namespace {

// "000" to "999", so that nine digits take three copies, of a whole word each.
constexpr std::array<std::array<char, 4>, 1000> make_thousand() {
    std::array<std::array<char, 4>, 1000> digits{};
    for (std::size_t i = 0; i < 1000; ++i)
        digits[i] = {static_cast<char>('0' + i / 100), static_cast<char>('0' + i / 10 % 10),
                     static_cast<char>('0' + i % 10), '\0'};
    return digits;
}
constexpr std::array<std::array<char, 4>, 1000> kThousand = make_thousand();

}  // namespace

char* write_nanoseconds(char* at, std::uint64_t ns) {
    const auto count = static_cast<std::uint32_t>(ns);
    std::memcpy(at, &kThousand[count / 1'000'000], 4);
    std::memcpy(at + 3, &kThousand[count / 1'000 % 1'000], 4);
    std::memcpy(at + 6, &kThousand[count % 1'000], 4);
    return at + 9;
}

char* write_seconds(char* at, std::uint64_t ns) {
    constexpr std::size_t kLongestNumber = 20;
    if (ns < kNanosecondsPerSecond) {
        *at++ = '0';
    } else {
        at = std::to_chars(at, at + kLongestNumber, ns / kNanosecondsPerSecond).ptr;
    }
    *at++ = '.';
    return write_nanoseconds(at, ns % kNanosecondsPerSecond);
}

char* TimeText::write(char* at, std::int64_t time_ns) {
    if (format_ == TimeFormat::kSeconds) {
        // "-1.500000000" is one and a half seconds before the origin.
        const auto bits = static_cast<std::uint64_t>(time_ns);
        if (time_ns < 0) *at++ = '-';
        return write_seconds(at, time_ns < 0 ? -bits : bits);
    }
    // Rounded down, so that nanoseconds count forward before the origin too.
    std::int64_t second = time_ns / kNanosecondsPerSecond;
    std::int64_t ns = time_ns % kNanosecondsPerSecond;
    if (ns < 0) {
        ns += kNanosecondsPerSecond;
        --second;
    }
    if (!has_second_ || second != second_) format_second(second);
    at = second_text_.write(at);
    return write_nanoseconds(at, static_cast<std::uint64_t>(ns));
}

void TimeText::format_second(std::int64_t second) {
    has_second_ = true;
    second_ = second;
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
