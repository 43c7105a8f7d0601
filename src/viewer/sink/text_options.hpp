#pragma once

#include <cstdint>

namespace leat::viewer {

enum class TimeFormat : std::uint8_t { kTimeOfDay, kDate, kSeconds, kIso };
enum class LineFormat : std::uint8_t { kText, kJson };

// What the lines of text show; the defaults are those of babeltrace2.
struct TextOptions {
    LineFormat format = LineFormat::kText;  // the names and fields that follow are of text alone
    TimeFormat time_format = TimeFormat::kTimeOfDay;
    bool is_gmt = false;  // otherwise the local time zone
    bool has_delta = true;
    bool has_cycles = false;  // events have the value of their clock in place of the time; losses have the time

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
