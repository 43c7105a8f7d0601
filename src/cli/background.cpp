#include "cli/background.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>

#include "cli/command.hpp"
#include "cli/tell.hpp"

namespace leat::cli {
namespace {

constexpr char kReady = 'r';
constexpr char kFailed = 'f';
constexpr char kEnd = '\0';

// Does not wait for the end of the pipe: a child of the child may hold it open.
std::string read_report(int fd) {
    std::string text;
    std::array<char, 4096> piece{};
    for (;;) {
        const ssize_t size = ::read(fd, piece.data(), piece.size());
        if (size > 0) text.append(piece.data(), static_cast<std::size_t>(size));
        if (text.ends_with(kEnd)) return text.substr(0, text.size() - 1);
        if (size == 0 || (size < 0 && errno != EINTR)) return {};
    }
}

void close_console() {
    const int nowhere = ::open("/dev/null", O_RDWR);
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(nowhere, fd);
    if (nowhere > STDERR_FILENO) ::close(nowhere);
}

[[noreturn]] void end_as_told(const char* program, int fd) {
    const std::string report = read_report(fd);
    const bool is_ready = report.starts_with(kReady);
    const std::string line = report.size() > 1 ? report.substr(1) + '\n' : "";
    if (report.empty())
        tell("{}: it ended before it was ready", program);
    else
        (void)std::fwrite(line.data(), 1, line.size(), is_ready ? stdout : stderr);
    std::fflush(stdout);
    ::_exit(is_ready ? kExitOk : kExitFailed);
}

}  // namespace

Result<Background> Background::enter(const char* program, bool closes_console) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return io_error("cannot make a pipe");
    const UniqueFd read_end(ends[0]);
    UniqueFd write_end(ends[1]);
    std::fflush(nullptr);
    const pid_t child = ::fork();
    if (child < 0) return io_error("cannot start a process");
    if (child != 0) {
        write_end.reset();
        end_as_told(program, read_end.get());
    }
    ::setsid();
    if (closes_console) close_console();
    return Background(std::move(write_end));
}

void Background::report(char status, const std::string& line) {
    const std::string text = status + line + kEnd;
    // If this fails, the parent was killed, and nobody wants to know.
    for (std::size_t at = 0; at < text.size();) {
        const ssize_t size = ::write(report_.get(), text.data() + at, text.size() - at);
        if (size < 0 && errno != EINTR) break;
        if (size > 0) at += static_cast<std::size_t>(size);
    }
    report_.reset();
}

void Background::report_ready(const std::string& line) { report(kReady, line); }

void Background::report_failure(const std::string& line) { report(kFailed, line); }

}  // namespace leat::cli
