#include "cli/progress_bar.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "cli/steer/quantities.hpp"

namespace leat::cli {
namespace {

constexpr std::chrono::seconds kPatience{2};
constexpr std::chrono::milliseconds kPeriod{200};

// Goes to the begin of the line, and takes away what follows.
constexpr const char* kEmptyLine = "\r\x1b[K";

bool is_in_foreground_of_terminal() {
    return ::isatty(STDERR_FILENO) == 1 && ::tcgetpgrp(STDERR_FILENO) == ::getpgrp();
}

bool is_output_a_file() {
    struct stat status {};
    if (::fstat(STDOUT_FILENO, &status) != 0) return false;
    return S_ISREG(status.st_mode) || (S_ISCHR(status.st_mode) && ::isatty(STDOUT_FILENO) == 0);
}

// Characters of a line; what is longer would need another one.
std::size_t width_of_terminal() {
    constexpr std::size_t kUsual = 80;
    winsize size{};
    const bool is_known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
    return is_known ? size.ws_col - 1U : kUsual - 1;
}

}  // namespace

ProgressBar::ProgressBar(bool prints)
    : is_wanted_(is_in_foreground_of_terminal() && (!prints || is_output_a_file())), next_(begin_ + kPatience) {}

void ProgressBar::show(std::uint64_t done, std::uint64_t total, Clock::time_point now) {
    const std::chrono::duration<double> taken = now - begin_;
    // The cursor stays in front: what others write there, such as a shell after Ctrl-C, begins a line.
    write(kEmptyLine + text(done, total, taken.count()).substr(0, width_of_terminal()) + '\r');
    is_shown_ = true;
    next_ = now + kPeriod;
}

void ProgressBar::clear() {
    if (is_shown_) write(kEmptyLine);
    is_shown_ = false;
}

// A terminal that is gone, or takes nothing now, goes without.
void ProgressBar::write(const std::string& text) {
    if (::write(STDERR_FILENO, text.data(), text.size()) != static_cast<ssize_t>(text.size())) is_wanted_ = false;
}

std::string ProgressBar::text(std::uint64_t done, std::uint64_t total, double seconds) {
    constexpr std::size_t kWidth = 30;
    const double part = total == 0 ? 1 : std::min(static_cast<double>(done) / static_cast<double>(total), 1.0);
    const auto filled = static_cast<std::size_t>(part * kWidth);
    std::string line = fmt::format("[{}{}] {:3.0f} % of {}", std::string(filled, '#'),
                                   std::string(kWidth - filled, ' '), 100 * part, size_for_people(total));
    if (part > 0 && part < 1) line += fmt::format(", {:.0f} s left", seconds / part - seconds);
    return line;
}

}  // namespace leat::cli
