#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace leat::cli {

// How far a command has come with what it reads, once that has taken two seconds. It is for people alone: on the
// terminal of a command in the foreground, in one line of standard error, which it takes away in the end. Where that
// cannot be written, there is none.
class ProgressBar {
  public:
    // `prints`: the command prints on standard output meanwhile. Then there is a bar if that is a file: a terminal
    // shows enough, and what reads a pipe may have the terminal.
    explicit ProgressBar(bool prints);
    ~ProgressBar() { clear(); }
    ProgressBar(const ProgressBar&) = delete;
    ProgressBar& operator=(const ProgressBar&) = delete;

    // Shows how far a reading has come, which must not outlive it. It looks at the clock at one of so many calls: fewer
    // if each call means much work.
    template <unsigned kCallsPerLook = 16, class Reading>
    void follow(Reading& reading) {
        if (is_wanted_) reading.watch([this, &reading] { tick(reading, kCallsPerLook); });
    }
    // Before anything else is written to standard error.
    void clear();

    // What it says, as far as that is known.
    [[nodiscard]] static std::string text(std::uint64_t done, std::uint64_t total, double seconds);

  private:
    using Clock = std::chrono::steady_clock;

    template <class Reading>
    void tick(const Reading& reading, unsigned calls_per_look) {
        if (!is_wanted_ || ++ticks_ % calls_per_look != 0) return;
        const Clock::time_point now = Clock::now();
        if (now >= next_) show(reading.bytes_begun(), reading.bytes_in_all(), now);
    }
    void show(std::uint64_t done, std::uint64_t total, Clock::time_point now);
    void write(const std::string& text);

    bool is_wanted_;
    bool is_shown_ = false;
    unsigned ticks_ = 0;
    Clock::time_point begin_ = Clock::now();
    Clock::time_point next_;
};

}  // namespace leat::cli
