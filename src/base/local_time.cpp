#include "base/local_time.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <ctime>

namespace leat {
namespace {

std::atomic<bool> is_remembered_one_used{false};
std::atomic<long> remembered_offset{0};  // s

// As localtime_r(), by another offset to UTC, in seconds.
std::tm time_at_offset(std::time_t time, long offset) {
    using std::chrono::sys_days;
    const std::chrono::sys_seconds local{std::chrono::seconds(time + offset)};
    const auto day = std::chrono::floor<std::chrono::days>(local);
    const std::chrono::year_month_day date(day);
    const std::chrono::hh_mm_ss clock(local - day);
    std::tm fields{};
    fields.tm_year = static_cast<int>(date.year()) - 1900;
    fields.tm_mon = static_cast<int>(static_cast<unsigned>(date.month())) - 1;
    fields.tm_mday = static_cast<int>(static_cast<unsigned>(date.day()));
    fields.tm_hour = static_cast<int>(clock.hours().count());
    fields.tm_min = static_cast<int>(clock.minutes().count());
    fields.tm_sec = static_cast<int>(clock.seconds().count());
    fields.tm_yday = static_cast<int>((day - sys_days(date.year() / 1 / 1)).count());
    fields.tm_wday = static_cast<int>(std::chrono::weekday(day).c_encoding());
    fields.tm_gmtoff = offset;
    fields.tm_zone = "";
    return fields;
}

}  // namespace

void remember_time_zone() {
    const std::time_t now = std::time(nullptr);
    std::tm local{};
    if (::localtime_r(&now, &local) != nullptr) remembered_offset = local.tm_gmtoff;
}

void go_by_remembered_time_zone() { is_remembered_one_used = true; }

std::string local_time_text(std::uint64_t seconds, const char* format) {
    const auto time = static_cast<std::time_t>(seconds);
    std::tm local{};
    if (is_remembered_one_used)
        local = time_at_offset(time, remembered_offset);
    else if (::localtime_r(&time, &local) == nullptr)
        return std::to_string(seconds);
    std::array<char, 64> text{};
    const std::size_t size = std::strftime(text.data(), text.size(), format, &local);
    return {text.data(), size};
}

std::string local_time_text(const char* format) {
    return local_time_text(static_cast<std::uint64_t>(std::time(nullptr)), format);
}

}  // namespace leat
