#include "cli/steer/quantities.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>
#include <span>
#include <string>

namespace leat::cli {
namespace {

struct Unit {
    std::string_view name;
    std::uint64_t factor;
};

constexpr std::array kPeriodUnits{Unit{"", 1},          Unit{"us", 1},         Unit{"ms", 1'000},
                                  Unit{"s", 1'000'000}, Unit{"m", 60'000'000}, Unit{"h", 3'600'000'000}};
constexpr std::array kSizeUnits{Unit{"", 1}, Unit{"K", 1U << 10}, Unit{"M", 1U << 20}, Unit{"G", 1U << 30},
                                Unit{"T", 1ULL << 40}};

constexpr std::uint64_t kMax = std::numeric_limits<std::int64_t>::max();

std::optional<std::uint64_t> parse(std::string_view text, std::string_view unit_name, std::span<const Unit> units) {
    std::uint64_t count = 0;
    const char* const end = text.data() + text.size();
    const auto [number_end, error] = std::from_chars(text.data(), end, count);
    const auto unit = std::ranges::find(units, unit_name, &Unit::name);
    if (error != std::errc{} || number_end != end || unit == units.end() || count > kMax / unit->factor)
        return std::nullopt;
    return count * unit->factor;
}

std::size_t unit_begin(std::string_view text) { return std::min(text.find_first_not_of("0123456789"), text.size()); }

}  // namespace

Result<std::uint64_t> parse_period(std::string_view text) {
    const std::size_t unit = unit_begin(text);
    const auto period = parse(text.substr(0, unit), text.substr(unit), kPeriodUnits);
    if (!period)
        return refused("\"{}\" is not a period: give a number with us, ms, s, m or h (us if there is none)", text);
    return *period;
}

Result<std::uint64_t> parse_size(std::string_view text) {
    const std::size_t begin = unit_begin(text);
    std::string unit(text.substr(begin));
    std::ranges::transform(unit, unit.begin(), [](unsigned char c) { return std::toupper(c); });
    if (unit.size() > 1 && unit.ends_with("IB"))
        unit.resize(unit.size() - 2);
    else if (unit.ends_with('B'))
        unit.pop_back();
    const auto size = parse(text.substr(0, begin), unit, kSizeUnits);
    if (!size) return refused("\"{}\" is not a size: give a number of bytes, or one with K, M, G or T", text);
    return *size;
}

std::string period_for_people(std::uint64_t period_us) {
    const Unit* unit = &kPeriodUnits[1];
    for (const Unit& larger : kPeriodUnits)
        if (period_us % larger.factor == 0 && larger.factor > unit->factor) unit = &larger;
    return fmt::format("{}{}", period_us / unit->factor, unit->name);
}

std::string size_for_people(std::uint64_t bytes) {
    constexpr std::array kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
    std::size_t unit = 0;
    auto value = static_cast<double>(bytes);
    for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
    return fmt::format("{:.{}f} {}", value, unit == 0 ? 0 : 1, kUnits[unit]);
}

std::string span_for_people(std::uint64_t ns) {
    const auto value = static_cast<double>(ns);
    if (ns < 1'000) return fmt::format("{} ns", ns);
    if (ns < 1'000'000) return fmt::format("{:.1f} us", value / 1e3);
    if (ns < 1'000'000'000) return fmt::format("{:.1f} ms", value / 1e6);
    return fmt::format("{:.1f} s", value / 1e9);
}

}  // namespace leat::cli
