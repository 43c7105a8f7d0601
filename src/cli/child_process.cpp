#include "cli/child_process.hpp"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "cli/program_file.hpp"

namespace leat::cli {
namespace {

// Our environment with some variables replaced or added.
class Environment {
  public:
    explicit Environment(const std::vector<ChildProcess::Variable>& variables) {
        for (char** entry = ::environ; *entry != nullptr; ++entry) {
            if (!is_replaced(*entry, variables)) entries_.emplace_back(*entry);
        }
        for (const auto& [name, value] : variables) entries_.push_back(fmt::format("{}={}", name, value));
    }

    [[nodiscard]] std::vector<char*> pointers() {
        std::vector<char*> pointers;
        pointers.reserve(entries_.size() + 1);
        for (std::string& entry : entries_) pointers.push_back(entry.data());
        pointers.push_back(nullptr);
        return pointers;
    }

  private:
    static bool is_replaced(std::string_view entry, const std::vector<ChildProcess::Variable>& variables) {
        for (const auto& [name, value] : variables) {
            if (entry.starts_with(name) && entry.substr(name.size(), 1) == "=") return true;
        }
        return false;
    }

    std::vector<std::string> entries_;
};

constexpr char kShell[] = "/bin/sh";

// A signal's value is a pointer or a number: both are in this one.
void* pointer_of(std::uint64_t value) {
    void* pointer = nullptr;
    std::memcpy(&pointer, &value, sizeof pointer);
    return pointer;
}

class SpawnAttributes {
  public:
    explicit SpawnAttributes(const ChildProcess::Signals& signals) {
        ::posix_spawnattr_init(&attributes_);
        ::posix_spawnattr_setsigmask(&attributes_, &signals.blocked);
        ::posix_spawnattr_setsigdefault(&attributes_, &signals.not_ignored);
        ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    }
    ~SpawnAttributes() { ::posix_spawnattr_destroy(&attributes_); }
    SpawnAttributes(const SpawnAttributes&) = delete;
    SpawnAttributes& operator=(const SpawnAttributes&) = delete;

    [[nodiscard]] const posix_spawnattr_t* get() const { return &attributes_; }

  private:
    posix_spawnattr_t attributes_{};
};

}  // namespace

Result<ChildProcess> ChildProcess::start(const std::vector<std::string>& command,
                                         const std::vector<Variable>& variables, const Signals& signals) {
    std::vector<std::string> arguments = command;
    std::vector<char*> argument_pointers;
    argument_pointers.reserve(arguments.size() + 1);
    for (std::string& argument : arguments) argument_pointers.push_back(argument.data());
    argument_pointers.push_back(nullptr);
    Environment environment(variables);
    const SpawnAttributes attributes(signals);
    pid_t pid = -1;
    int error = ::posix_spawnp(&pid, argument_pointers[0], nullptr, attributes.get(), argument_pointers.data(),
                               environment.pointers().data());
    // As execvp() does with a script that does not say what interprets it.
    if (const auto script = error == ENOEXEC ? find_program(command[0]) : std::nullopt) {
        std::string shell = kShell;
        std::string file = script->string();
        argument_pointers[0] = file.data();
        argument_pointers.insert(argument_pointers.begin(), shell.data());
        error = ::posix_spawn(&pid, kShell, nullptr, attributes.get(), argument_pointers.data(),
                              environment.pointers().data());
    }
    if (error != 0)
        return fail(ErrorKind::kIo, "cannot start {}: {}{}", command[0].empty() ? "\"\"" : command[0],
                    std::strerror(error), error == ENOENT ? ": check its name, or give its path" : "");
    return ChildProcess(pid);
}

std::optional<ProcessEnd> ChildProcess::poll_end() {
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
    if (WIFSIGNALED(status)) return ProcessEnd::by_signal(WTERMSIG(status));
    return ProcessEnd{.exit_status = WEXITSTATUS(status)};
}

void ChildProcess::send(const signalfd_siginfo& signal) const {
    const auto number = static_cast<int>(signal.ssi_signo);
    if (signal.ssi_code != SI_QUEUE || ::sigqueue(pid_, number, {.sival_ptr = pointer_of(signal.ssi_ptr)}) != 0)
        ::kill(pid_, number);
}

}  // namespace leat::cli
