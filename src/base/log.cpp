#include "base/log.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <ctime>

#include "base/printable_text.hpp"
#include "base/utf8.hpp"

namespace leat {
namespace {

// A pipe that is writable takes so many bytes without waiting, and lines of other processes do not get into them.
constexpr std::size_t kMaxLine = PIPE_BUF;
constexpr std::string_view kCut = "...";
constexpr std::array<const char*, 4> kLevels{"error", "warning", "info", "debug"};

std::string time_text() {
    timeval now{};
    ::gettimeofday(&now, nullptr);
    std::tm local{};
    ::localtime_r(&now.tv_sec, &local);
    std::array<char, 32> date{};
    std::array<char, 8> zone{};
    std::strftime(date.data(), date.size(), "%Y-%m-%dT%H:%M:%S", &local);
    std::strftime(zone.data(), zone.size(), "%z", &local);
    return fmt::format("{}.{:06}{}", date.data(), now.tv_usec, zone.data());
}

// Bytes of the UTF-8 character that the text begins with; 0: it begins with none, or with a control character.
std::size_t printable_size(std::string_view text) { return control_size(text) == 0 ? utf8_size(text) : 0; }

std::string json_text(std::string_view text) {
    std::string quoted = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') quoted += '\\';
        quoted += c;
    }
    return quoted + '"';
}

}  // namespace

std::string escaped(std::string_view text) {
    std::string clean;
    clean.reserve(text.size());
    while (!text.empty()) {
        const std::size_t size = printable_size(text);
        if (size == 0)
            fmt::format_to(std::back_inserter(clean), "\\x{:02X}", static_cast<unsigned char>(text.front()));
        else
            clean += text.substr(0, size);
        text.remove_prefix(std::max<std::size_t>(size, 1));
    }
    return clean;
}

Log& the_log() {
    static Log log;
    return log;
}

Result<void> Log::open(const std::string& path) {
    UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0640));
    if (!file.is_open()) return io_error("cannot write the log " + path);
    const std::lock_guard lock(mutex_);
    file_ = std::move(file);
    path_ = path;
    is_torn_ = false;
    return {};
}

Result<void> Log::reopen() { return path_.empty() ? Result<void>() : open(std::string(path_)); }

void Log::write(Level level, std::string_view message) {
    const std::lock_guard lock(mutex_);
    if (dropped_ != 0 && write_line(line(Level::kWarning, fmt::format("{} lines of this log were lost", dropped_))))
        dropped_ = 0;
    if (!write_line(line(level, message))) ++dropped_;
}

std::string Log::line(Level level, std::string_view message) const {
    constexpr std::size_t kMaxHead = 256;
    std::string text = escaped(message.substr(0, kMaxLine));
    std::string line;
    for (;;) {
        const char* const name = kLevels[static_cast<std::size_t>(level)];
        line = format_ == Format::kText
                   ? fmt::format("{} {}[{}] {}: {}\n", time_text(), program_, ::getpid(), name, text)
                   : fmt::format("{{\"time\":\"{}\",\"program\":\"{}\",\"pid\":{},\"level\":\"{}\",\"message\":{}}}\n",
                                 time_text(), program_, ::getpid(), name, json_text(text));
        if (line.size() <= kMaxLine) return line;
        // Escapes make it longer than it was: half of it is cut until it fits, between two characters.
        std::size_t size = std::min(text.size() / 2, kMaxLine - kMaxHead);
        while (size != 0 && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) --size;
        text = text.substr(0, size) + std::string(kCut);
    }
}

// Its descriptor may be a pipe that nobody reads, and other programs may have it: we cannot make it non-blocking.
bool Log::write_line(const std::string& line) {
    const int fd = file_.is_open() ? file_.get() : console_;
    pollfd writable{fd, POLLOUT, 0};
    if (::poll(&writable, 1, 0) != 1 || (writable.revents & POLLOUT) == 0) return false;
    const std::string text = (is_torn_ ? "\n" : "") + line;
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written <= 0) return false;
    is_torn_ = static_cast<std::size_t>(written) != text.size();
    return !is_torn_;
}

}  // namespace leat
