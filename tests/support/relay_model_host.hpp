// The relay that RelayModel talks to. It runs in a process of its own, which can be killed, and paused while its files
// are checked; or on a thread of this process, for a fuzzer that wants to see its branches.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <asio/signal_set.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <thread>

#include "base/check.hpp"
#include "base/unique_fd.hpp"
#include "relay/server.hpp"

namespace leat::test {

inline std::size_t count_descriptors(const std::string& process) {
    std::size_t count = 0;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/" + process + "/fd", error))
        count += entry.path().filename().empty() ? 0 : 1;
    return count;
}

class RelayHost {
  public:
    struct Ports {
        std::uint16_t control = 0;
        std::uint16_t data = 0;
        std::uint16_t live = 0;
    };
    using Meanwhile = std::function<void()>;

    RelayHost() = default;
    virtual ~RelayHost() = default;
    RelayHost(const RelayHost&) = delete;
    RelayHost& operator=(const RelayHost&) = delete;

    // All ports are 0 if the relay does not start.
    virtual Ports start(const std::filesystem::path& output, const std::filesystem::path& log) = 0;
    // Kills the relay at once, whatever it is doing. Returns false if this host cannot kill it, and has ended it with
    // stop().
    virtual bool kill(const Meanwhile& meanwhile) = 0;
    // Ends the relay as SIGTERM does. Calls `meanwhile`, if there is one, after the relay was told to end. Returns what
    // was wrong with its end; empty if nothing was.
    virtual std::string stop(const Meanwhile& meanwhile) = 0;
    // The relay does nothing between pause() and resume(). Returns false if this host cannot pause it.
    virtual bool pause() { return false; }
    virtual void resume() {}
    // How the relay died; empty if it lives.
    virtual std::string death() { return {}; }
    [[nodiscard]] virtual std::size_t descriptors() const = 0;
};

class ForkedRelay final : public RelayHost {
  public:
    ~ForkedRelay() override { (void)ForkedRelay::kill({}); }

    Ports start(const std::filesystem::path& output, const std::filesystem::path& log) override {
        std::array<int, 2> ends{};
        LEAT_CHECK(::pipe2(ends.data(), O_CLOEXEC) == 0);
        life_ = UniqueFd(ends[0]);
        UniqueFd theirs(ends[1]);
        std::fflush(nullptr);
        child_ = ::fork();
        LEAT_CHECK(child_ >= 0);
        if (child_ == 0) serve(output.string(), log.string(), theirs.get());
        theirs.reset();
        Ports ports;
        if (::read(life_.get(), &ports, sizeof ports) != sizeof ports) return {};
        return ports;
    }

    bool kill(const Meanwhile& /*meanwhile*/) override {
        if (child_ > 0) {
            ::kill(child_, SIGKILL);
            ::waitpid(child_, nullptr, 0);
        }
        end();
        return true;
    }

    std::string stop(const Meanwhile& meanwhile) override {
        if (child_ <= 0) return "it is not there";
        ::kill(child_, SIGTERM);
        if (meanwhile) meanwhile();
        int status = 0;
        ::waitpid(child_, &status, 0);
        end();
        return describe(status);
    }

    bool pause() override {
        if (child_ <= 0) return true;
        ::kill(child_, SIGSTOP);
        siginfo_t info{};
        ::waitid(P_PID, static_cast<id_t>(child_), &info, WSTOPPED | WEXITED | WNOWAIT);
        return true;
    }
    void resume() override {
        if (child_ > 0) ::kill(child_, SIGCONT);
    }

    std::string death() override {
        int status = 0;
        if (child_ <= 0 || ::waitpid(child_, &status, WNOHANG) != child_) return {};
        end();
        const std::string how = describe(status);
        return how.empty() ? "it has ended by itself" : how;
    }

    [[nodiscard]] std::size_t descriptors() const override { return count_descriptors(std::to_string(child_)); }

  private:
    // All processes that the relay started hold the other end of the pipe as well. All of them are gone when this
    // returns.
    void end() {
        child_ = -1;
        char byte = 0;
        while (life_.is_open() && ::read(life_.get(), &byte, 1) > 0) {
        }
        life_.reset();
    }

    static std::string describe(int status) {
        if (WIFSIGNALED(status)) return "killed by signal " + std::to_string(WTERMSIG(status));
        return WEXITSTATUS(status) == 0 ? "" : "exit status " + std::to_string(WEXITSTATUS(status));
    }

    [[noreturn]] static void serve(const std::string& output, const std::string& log, int pipe) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        const int file = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
        ::dup2(file, STDERR_FILENO);
        ::dup2(pipe, 3);
        ::close_range(4, ~0U, 0);
        std::signal(SIGPIPE, SIG_IGN);
        {
            auto server = relay::Server::create({.control_port = 0, .data_port = 0, .live_port = 0, .output = output});
            if (!server) ::_exit(3);
            asio::signal_set signals((*server)->context(), SIGTERM);
            signals.async_wait([&](const asio::error_code& error, int) {
                if (!error) (*server)->stop();
            });
            const Ports ports{(*server)->control_port(), (*server)->data_port(), (*server)->live_port()};
            if (::write(3, &ports, sizeof ports) != sizeof ports) ::_exit(3);
            (*server)->run();
        }
        std::exit(0);  // NOLINT(concurrency-mt-unsafe): sanitizers report here what they found
    }

    pid_t child_ = -1;
    UniqueFd life_;
};

class ThreadedRelay final : public RelayHost {
  public:
    ~ThreadedRelay() override { (void)ThreadedRelay::stop({}); }

    Ports start(const std::filesystem::path& output, const std::filesystem::path& /*log*/) override {
        auto server =
            relay::Server::create({.control_port = 0, .data_port = 0, .live_port = 0, .output = output.string()});
        if (!server) return {};
        server_ = *std::move(server);
        thread_ = std::thread([this] { server_->run(); });
        return {server_->control_port(), server_->data_port(), server_->live_port()};
    }
    bool kill(const Meanwhile& meanwhile) override {
        (void)stop(meanwhile);
        return false;
    }
    std::string stop(const Meanwhile& meanwhile) override {
        if (server_ == nullptr) return "it is not there";
        server_->stop();
        if (meanwhile) meanwhile();
        thread_.join();
        server_.reset();
        return {};
    }
    [[nodiscard]] std::size_t descriptors() const override { return count_descriptors("self"); }

  private:
    std::unique_ptr<relay::Server> server_;
    std::thread thread_;
};

// The last lines of the log.
inline std::string tail_of(const std::filesystem::path& log) {
    std::ifstream file(log);
    std::stringstream text;
    text << file.rdbuf();
    const std::string all = text.str();
    constexpr std::size_t kMuch = 3000;
    return all.size() <= kMuch ? all : all.substr(all.size() - kMuch);
}

}  // namespace leat::test
