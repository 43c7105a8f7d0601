#include "ctf/model/trace_class.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace leat::ctf {
namespace {

template <class T>
const T* environment_value(const TraceClass& trace_class, std::string_view name) {
    const auto entry = std::ranges::find(trace_class.environment, name, &EnvironmentEntry::name);
    return entry == trace_class.environment.end() ? nullptr : std::get_if<T>(&entry->value);
}

bool is_dash_position(std::size_t position) {
    return position == 8 || position == 13 || position == 18 || position == 23;
}

}  // namespace

const std::string* environment_text(const TraceClass& trace_class, std::string_view name) {
    return environment_value<std::string>(trace_class, name);
}

const std::int64_t* environment_number(const TraceClass& trace_class, std::string_view name) {
    return environment_value<std::int64_t>(trace_class, name);
}

const StreamClass* TraceIndex::stream(std::uint64_t id) {
    const auto& streams = trace_class_->streams;
    for (; streams_seen_ < streams.size(); ++streams_seen_)
        streams_.emplace(streams[streams_seen_].id, &streams[streams_seen_]);
    const auto found = streams_.find(id);
    return found == streams_.end() ? nullptr : found->second;
}

const ClockClass* TraceIndex::clock(std::string_view name) {
    const auto& clocks = trace_class_->clocks;
    for (; clocks_seen_ < clocks.size(); ++clocks_seen_)
        clocks_.emplace(clocks[clocks_seen_].name, &clocks[clocks_seen_]);
    const auto found = clocks_.find(name);
    return found == clocks_.end() ? nullptr : found->second;
}

std::string to_string(const Uuid& uuid) {
    std::string text;
    for (const std::uint8_t byte : uuid) {
        if (is_dash_position(text.size())) text += '-';
        text += fmt::format("{:02x}", byte);
    }
    return text;
}

std::optional<Uuid> parse_uuid(std::string_view text) {
    constexpr std::size_t kTextSize = 36;
    if (text.size() != kTextSize) return std::nullopt;
    Uuid uuid{};
    std::size_t position = 0;
    for (std::uint8_t& byte : uuid) {
        if (is_dash_position(position) && text[position++] != '-') return std::nullopt;
        const char* const digits = text.data() + position;
        if (std::from_chars(digits, digits + 2, byte, 16).ptr != digits + 2) return std::nullopt;
        position += 2;
    }
    return uuid;
}

}  // namespace leat::ctf
