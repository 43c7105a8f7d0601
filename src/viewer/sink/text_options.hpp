#pragma once

#include <cstdint>
#include <string_view>

namespace leat::viewer {

enum class TimeFormat : std::uint8_t { kTimeOfDay, kDate, kSeconds, kIso };
enum class LineFormat : std::uint8_t { kText, kJson };

// What a terminal is told around the parts of a line. All is empty in text without colours.
struct TextColors {
    std::string_view time{};
    std::string_view event{};   // its name
    std::string_view header{};  // names of fields that are no event's, and of scopes
    std::string_view field{};   // its name
    std::string_view value{};
    std::string_view unknown{};  // a value that its enum has no label for
    std::string_view warning{};
    std::string_view end{};
};
// Those of babeltrace2, whatever the terminal.
inline constexpr TextColors kTerminalColors{.time = "\x1b[1m\x1b[1m\x1b[33m",
                                            .event = "\x1b[1m\x1b[1m\x1b[35m",
                                            .header = "\x1b[1m",
                                            .field = "\x1b[36m",
                                            .value = "\x1b[1m",
                                            .unknown = "\x1b[1m\x1b[1m\x1b[31m",
                                            .warning = "\x1b[33m",
                                            .end = "\x1b[0m"};

// What the lines of text show; the defaults are those of babeltrace2.
struct TextOptions {
    LineFormat format = LineFormat::kText;  // the names and fields that follow are of text alone
    TimeFormat time_format = TimeFormat::kTimeOfDay;
    bool is_gmt = false;  // otherwise the local time zone
    bool has_delta = true;
    bool has_cycles = false;  // events have the value of their clock in place of the time; losses have the time

    TextColors colors{};
    TextColors warning_colors{};  // of what is said of losses

    // Which names are written before their values.
    bool names_payload = true;
    bool names_context = true;
    bool names_scope = false;
    bool names_header = false;

    // Which fields a line begins with.
    bool shows_trace = false;
    bool shows_hostname = true;
    bool shows_domain = false;
    bool shows_procname = true;
    bool shows_vpid = true;
    bool shows_log_level = false;
    bool shows_emf_uri = false;
};

}  // namespace leat::viewer
