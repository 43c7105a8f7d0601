#pragma once

#include <cstddef>
#include <cstdint>

#include "viewer/sink/padded_text.hpp"
#include "viewer/sink/text_buffer.hpp"
#include "viewer/sink/text_options.hpp"

namespace leat::viewer {

inline constexpr std::int64_t kNanosecondsPerSecond = 1'000'000'000;

// Writes times as the lines of text show them: "12:30:05.000000001", "2026-11-20 12:30:05...", "1795181934...", or, as
// in JSON, "2026-11-20T12:30:05...".
class TimeText {
  public:
    // No time has more characters, with those of PaddedText behind it.
    static constexpr std::size_t kMaxSize = 64;

    explicit TimeText(const TextOptions& options) : format_(options.time_format), is_gmt_(options.is_gmt) {}

    // Returns the end of what it has written.
    char* write(char* at, std::int64_t time_ns);
    void append(TextBuffer& buffer, std::int64_t time_ns) { buffer.set_end(write(buffer.reserve(kMaxSize), time_ns)); }

  private:
    void begin_second(std::int64_t time_ns);
    void format_second(std::int64_t second);

    TimeFormat format_;
    bool is_gmt_;
    // Most events share their second with the event before.
    bool has_second_ = false;
    std::uint64_t second_begin_ = 0;  // ns since the origin, modulo 2^64: the first second begins before INT64_MIN
    PaddedText second_text_;
};

// Writes "3.000000042". Returns its end, and needs kMaxDecimalSize bytes and ten more.
char* write_seconds(char* at, std::uint64_t ns);

}  // namespace leat::viewer
