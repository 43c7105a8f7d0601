#include "cli/session_daemon.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "base/printable_text.hpp"
#include "wire/app/app_directory_parent.hpp"
#include "wire/app/runtime_layout.hpp"

namespace leat::cli {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr char kDaemon[] = "leat-sessiond";
constexpr auto kStartPatience = 30s;
constexpr auto kConnectPeriod = 50ms;
constexpr std::size_t kMaxReport = 4096;

// The settings of a process that shall outlive this one: it gets none of our descriptors but the standard ones.
class SpawnSettings {
  public:
    explicit SpawnSettings(int report) {
        ::posix_spawn_file_actions_init(&actions_);
        ::posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDWR, 0);
        ::posix_spawn_file_actions_adddup2(&actions_, STDIN_FILENO, STDOUT_FILENO);
        ::posix_spawn_file_actions_adddup2(&actions_, report, STDERR_FILENO);
        ::posix_spawn_file_actions_addclosefrom_np(&actions_, STDERR_FILENO + 1);
        ::posix_spawnattr_init(&attributes_);
        sigset_t signals;
        ::sigemptyset(&signals);
        ::posix_spawnattr_setsigmask(&attributes_, &signals);
        ::sigaddset(&signals, SIGPIPE);
        ::posix_spawnattr_setsigdefault(&attributes_, &signals);
        ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    }
    SpawnSettings(const SpawnSettings&) = delete;
    SpawnSettings& operator=(const SpawnSettings&) = delete;
    ~SpawnSettings() {
        ::posix_spawn_file_actions_destroy(&actions_);
        ::posix_spawnattr_destroy(&attributes_);
    }

    // Returns an error number, or 0.
    int spawn(const std::string& program, pid_t& child) const {
        std::string name = program;
        std::string option = "--background";
        const std::array<char*, 3> arguments{name.data(), option.data(), nullptr};
        return ::posix_spawnp(&child, program.c_str(), &actions_, &attributes_, arguments.data(), environ);
    }

  private:
    posix_spawn_file_actions_t actions_{};
    posix_spawnattr_t attributes_{};
};

// What it has written on standard error, without the name in front. Does not wait: a daemon may hold the pipe open.
std::string read_failure(int report) {
    std::array<char, kMaxReport> text{};
    const ssize_t size = ::read(report, text.data(), text.size());
    std::string line(text.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
    line.resize(std::min(line.size(), line.find('\n')));
    const std::string prefix = std::string(kDaemon) + ": ";
    return printable(line.starts_with(prefix) ? line.substr(prefix.size()) : line);
}

// Waits until the daemon is in the background and ready.
Result<void> wait_for_start(pid_t child, int report) {
    const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
    if (!process.is_open()) return io_error("cannot wait for leat-sessiond");
    const auto deadline = Clock::now() + kStartPatience;
    for (;;) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
        if (left <= 0ms)
            return fail(ErrorKind::kIo, "leat-sessiond (process {}) is not ready after {} s", child,
                        kStartPatience / 1s);
        pollfd wanted{process.get(), POLLIN, 0};
        const int count = ::poll(&wanted, 1, static_cast<int>(left / 1ms));
        if (count > 0) break;
        if (count < 0 && errno != EINTR) return io_error("cannot wait for leat-sessiond");
    }
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
    const std::string failure = read_failure(report);
    return fail(ErrorKind::kIo, "leat-sessiond could not be started: {}",
                failure.empty() ? "it ended before it was ready" : failure);
}

// kNotFound: there is no such program.
Result<void> start_daemon(const std::string& program) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) return io_error("cannot make a pipe");
    const UniqueFd report(ends[0]);
    UniqueFd write_end(ends[1]);
    pid_t child = 0;
    const int error = SpawnSettings(write_end.get()).spawn(program, child);
    write_end.reset();
    if (error != 0)
        return fail(ErrorKind::kNotFound, "no session daemon is running, and {} cannot be started: {}", program,
                    std::strerror(error));
    return wait_for_start(child, report.get());
}

}  // namespace

Result<std::vector<fs::path>> control_sockets() {
    const auto root = LEAT_TRY(wire::runtime_directory());
    if (root && root->empty())
        return refused("{} is set and empty: no session daemon can be found", wire::kRuntimeDirectoryVariable);
    const fs::path system = root.value_or(wire::kSystemDirectory);
    std::vector<fs::path> sockets{system / wire::kControlSocketName};
    const uid_t user = ::geteuid();
    if (user == 0) return sockets;
    const fs::path parent = root ? system / wire::kAppDirectoryParentBelow : wire::kAppDirectoryParent;
    sockets.push_back(parent / fmt::format("{}{}", wire::kAppDirectoryPrefix, user) / wire::kControlSocketName);
    return sockets;
}

DaemonStart::DaemonStart() : program(kDaemon) {
    std::error_code error;
    const fs::path beside = fs::read_symlink("/proc/self/exe", error).parent_path() / kDaemon;
    if (!error && ::access(beside.c_str(), X_OK) == 0) program = beside;
}

Result<ControlClient> connect_to_daemon() { return ControlClient::connect(LEAT_TRY(control_sockets())); }

Result<ControlClient> connect_or_start_daemon(const DaemonStart& start) {
    auto client = connect_to_daemon();
    if (client || client.error().kind != ErrorKind::kNotFound) return client;
    const auto started = start_daemon(start.program);
    if (!started && started.error().kind == ErrorKind::kNotFound) return tl::unexpected(started.error());
    // If another client was faster, ours may have ended because of that one's daemon, which may not be ready yet.
    const auto deadline = Clock::now() + start.connect_patience;
    for (;;) {
        client = connect_to_daemon();
        if (client || client.error().kind != ErrorKind::kNotFound) return client;
        if (Clock::now() >= deadline) break;
        std::this_thread::sleep_for(kConnectPeriod);
    }
    if (!started) return tl::unexpected(started.error());
    return fail(ErrorKind::kIo, "leat-sessiond was started, but nobody can connect to it");
}

}  // namespace leat::cli
