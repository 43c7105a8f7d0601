#pragma once

#include <array>
#include <string_view>

namespace leat::ctf {

// The names of log levels 0 to 14, as viewers show them; people leave the prefix out.
inline constexpr std::string_view kLogLevelPrefix = "TRACE_";
inline constexpr std::array<std::string_view, 15> kLogLevels{
    "TRACE_EMERG",        "TRACE_ALERT",      "TRACE_CRIT",           "TRACE_ERR",           "TRACE_WARNING",
    "TRACE_NOTICE",       "TRACE_INFO",       "TRACE_DEBUG_SYSTEM",   "TRACE_DEBUG_PROGRAM", "TRACE_DEBUG_PROCESS",
    "TRACE_DEBUG_MODULE", "TRACE_DEBUG_UNIT", "TRACE_DEBUG_FUNCTION", "TRACE_DEBUG_LINE",    "TRACE_DEBUG"};

}  // namespace leat::ctf
