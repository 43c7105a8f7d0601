#pragma once

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/local_socket.hpp"
#include "base/unique_fd.hpp"
#include "cli/json_text.hpp"
#include "cli/session_daemon.hpp"

namespace leat::cli {

// A directory to which LEAT_RUNTIME_DIR leads, with the directories that a daemon would make.
class RuntimeDirectoryForTests {
  public:
    RuntimeDirectoryForTests() {
        std::string path = "/tmp/leat-test-XXXXXX";
        path_ = ::mkdtemp(path.data());
        ::setenv("LEAT_RUNTIME_DIR", path.c_str(), 1);
        socket_ = control_sockets()->back();
        std::filesystem::create_directories(socket_.parent_path());
    }
    RuntimeDirectoryForTests(const RuntimeDirectoryForTests&) = delete;
    RuntimeDirectoryForTests& operator=(const RuntimeDirectoryForTests&) = delete;
    ~RuntimeDirectoryForTests() {
        ::unsetenv("LEAT_RUNTIME_DIR");
        std::filesystem::remove_all(path_);
    }

    [[nodiscard]] const std::filesystem::path& path() const { return path_; }
    [[nodiscard]] const std::filesystem::path& socket() const { return socket_; }

  private:
    std::filesystem::path path_;
    std::filesystem::path socket_;
};

// Serves one client after the other, and answers each line with what `answer` returns. It closes a connection whose
// line was answered with nothing.
class FakeDaemon {
  public:
    using Answer = std::function<std::vector<std::string>(const Json& request)>;  // sent in as many pieces

    FakeDaemon(const std::filesystem::path& path, Answer answer) : answer_(std::move(answer)) {
        std::filesystem::remove(path);
        listener_ = *listen_at(path, {});
        thread_ = std::thread([this] { serve(); });
    }
    FakeDaemon(const FakeDaemon&) = delete;
    FakeDaemon& operator=(const FakeDaemon&) = delete;
    ~FakeDaemon() {
        ::shutdown(listener_.get(), SHUT_RDWR);
        thread_.join();
    }

    [[nodiscard]] std::vector<Json> requests() {
        const std::lock_guard lock(mutex_);
        return requests_;
    }

  private:
    void serve() {
        for (;;) {
            const UniqueFd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
            if (!client.is_open()) return;
            std::string input;
            while (serve_line(client.get(), input)) {
            }
        }
    }

    bool serve_line(int client, std::string& input) {
        char piece[4096];
        while (input.find('\n') == std::string::npos) {
            const ssize_t size = ::recv(client, piece, sizeof piece, 0);
            if (size <= 0) return false;
            input.append(piece, static_cast<std::size_t>(size));
        }
        const std::size_t end = input.find('\n');
        const Json request = Json::parse(input.substr(0, end));
        input.erase(0, end + 1);
        {
            const std::lock_guard lock(mutex_);
            requests_.push_back(request);
        }
        const auto pieces = answer_(request);
        for (const std::string& text : pieces) {
            ::send(client, text.data(), text.size(), MSG_NOSIGNAL);
            if (pieces.size() > 1) std::this_thread::yield();
        }
        return !pieces.empty();
    }

    Answer answer_;
    UniqueFd listener_;
    std::mutex mutex_;
    std::vector<Json> requests_;
    std::thread thread_;
};

}  // namespace leat::cli
