#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace leat {

// What an operator should know, one line each, on stderr or in a file:
//
//   2026-11-21T23:45:31.123456+0000 leat-relayd[4711] warning: the disk is full
//
// or, for programs, {"time":...,"program":...,"pid":...,"level":...,"message":...}. Names and messages of peers end up
// in it, so control characters are escaped. Writing never waits and never fails: a line that does not fit is dropped,
// and the next line that fits is preceded by one that says how many were. Any thread.
class Log {
  public:
    enum class Level : std::uint8_t { kError, kWarning, kInfo, kDebug };
    enum class Format : std::uint8_t { kText, kJson };

    Log() = default;
    // Lines go to `fd` of somebody else, as long as no file is opened.
    explicit Log(int fd) : console_(fd) {}

    // `name` outlives the log.
    void set_program(const char* name) { program_ = name; }
    void set_level(Level level) { level_ = level; }
    void set_format(Format format) { format_ = format; }
    [[nodiscard]] bool has(Level level) const { return level <= level_; }

    // From here on lines go to the end of this file.
    Result<void> open(const std::string& path);
    // The file may have been moved away: opens its path again. Keeps the old file if that fails.
    Result<void> reopen();
    [[nodiscard]] bool is_file() const { return file_.is_open(); }
    // Of the file; empty: there is none.
    [[nodiscard]] const std::string& path() const { return path_; }

    void write(Level level, std::string_view message);

  private:
    [[nodiscard]] std::string line(Level level, std::string_view message) const;
    bool write_line(const std::string& line);

    const char* program_ = "leat";
    Level level_ = Level::kWarning;
    Format format_ = Format::kText;
    std::mutex mutex_;
    int console_ = 2;
    std::string path_{};
    UniqueFd file_{};
    std::uint64_t dropped_ = 0;
    bool is_torn_ = false;  // the disk had no room for the end of the last line
};

// Of this program.
Log& the_log();

// Control characters and what is not UTF-8 as \xNN.
std::string escaped(std::string_view text);

template <class... Args>
void log(Log::Level level, fmt::format_string<Args...> format, Args&&... args) {
    if (the_log().has(level)) the_log().write(level, fmt::format(format, std::forward<Args>(args)...));
}

template <class... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
    log(Log::Level::kError, format, std::forward<Args>(args)...);
}

template <class... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
    log(Log::Level::kWarning, format, std::forward<Args>(args)...);
}

template <class... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
    log(Log::Level::kInfo, format, std::forward<Args>(args)...);
}

template <class... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
    log(Log::Level::kDebug, format, std::forward<Args>(args)...);
}

// A warning.
template <class... Args>
void log(fmt::format_string<Args...> format, Args&&... args) {
    log_warning(format, std::forward<Args>(args)...);
}

}  // namespace leat
