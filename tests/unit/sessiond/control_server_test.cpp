#include "sessiond/control_server.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <atomic>
#include <set>
#include <thread>

#include "base/local_socket.hpp"
#include "support/scratch_directory.hpp"
#include "support/session_model.hpp"

namespace leat::sessiond {
namespace {

using nlohmann::json;

class ControlServerTest : public testing::Test {
  protected:
    UniqueFd connect() { return *connect_at(daemon_.socket(), SOCK_STREAM | SOCK_NONBLOCK); }
    // Sends all, while the server takes it. Does not read.
    void send(const UniqueFd& client, const std::string& bytes) {
        std::size_t sent = 0;
        for (int turn = 0; turn < 200 && sent < bytes.size(); ++turn) {
            const ssize_t size =
                ::send(client.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
            if (size > 0) sent += static_cast<std::size_t>(size);
            server_->run();
        }
    }
    // What has come until now.
    std::string received(const UniqueFd& client) {
        std::string text;
        std::array<char, 65536> bytes{};
        for (ssize_t size = 1; size > 0;) {
            size = ::recv(client.get(), bytes.data(), bytes.size(), 0);
            if (size > 0) text.append(bytes.data(), static_cast<std::size_t>(size));
        }
        return text;
    }

    test::ScratchDaemon daemon_;
    std::unique_ptr<ControlServer> server_ = *ControlServer::listen({.path = daemon_.socket()}, daemon_.handler());
};

TEST_F(ControlServerTest, SocketIsForItsUserAlone) {
    struct stat status {};
    ASSERT_EQ(::lstat(daemon_.socket().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777U, 0600U);
}

// As sessions do that go on after a daemon was killed, while the next one begins to listen.
TEST_F(ControlServerTest, WhatAnotherThreadMakesMeanwhileHasItsMode) {
    const test::ScratchDirectory scratch;
    const std::string path = scratch.path() / "directory";
    std::atomic<bool> has_begun = false;
    std::atomic<bool> is_over = false;
    std::set<mode_t> modes;
    std::thread other([&] {
        while (!is_over) {
            struct stat status {};
            if (::mkdir(path.c_str(), 0777) == 0 && ::lstat(path.c_str(), &status) == 0)
                modes.insert(status.st_mode & 0777U);
            ::rmdir(path.c_str());
            has_begun = true;
        }
    });
    while (!has_begun) std::this_thread::yield();
    for (int i = 0; i < 2'000; ++i)
        EXPECT_TRUE(ControlServer::listen({.path = scratch.path() / "socket"}, daemon_.handler()));
    is_over = true;
    other.join();
    EXPECT_EQ(modes.size(), 1U) << "nobody has changed the umask";
}

TEST_F(ControlServerTest, RequestThatLiesTooDeepIsRefused) {
    const UniqueFd client = connect();
    const std::size_t depth = 300'000;
    send(client,
         R"({"version": 1, "verb": "load", "definition": {"leat_session": 1, "name": "x", "channels": [{"x": )" +
             std::string(depth, '[') + std::string(depth, ']') + "}]}}\n");
    const json answer = json::parse(received(client), nullptr, false);
    ASSERT_TRUE(answer.is_object());
    EXPECT_EQ(answer["ok"], false);
}

TEST_F(ControlServerTest, AnswersThatNobodyReadsAreNotMade) {
    const UniqueFd client = connect();
    std::string many;
    constexpr int kCount = 20'000;
    for (int i = 0; i < kCount; ++i)
        many += R"({"version": 1, "verb": "version"})"
                "\n";
    send(client, many);
    const std::string first = received(client);
    EXPECT_LT(std::ranges::count(first, '\n'), kCount / 2);
    // Whoever reads gets all of them, also if it sends no more.
    std::ptrdiff_t answers = std::ranges::count(first, '\n');
    for (int turn = 0; turn < 2'000; ++turn) {
        server_->run();
        answers += std::ranges::count(received(client), '\n');
    }
    EXPECT_GT(answers, std::ranges::count(first, '\n'));
}

TEST_F(ControlServerTest, OneTurnServesEverybody) {
    const UniqueFd busy = connect();
    send(busy, std::string(100'000, '\n'));
    const UniqueFd other = connect();
    ASSERT_EQ(::send(other.get(), "{}\n", 3, 0), 3);
    server_->run();
    EXPECT_NE(received(other), "");
}

// However many come.
TEST_F(ControlServerTest, WhoWaitsGetsTheAnswer) {
    std::vector<Reply> replies;
    server_.reset();
    server_ = *ControlServer::listen({.path = daemon_.socket()}, [&replies](const Client&, const json&, Reply reply) {
        replies.push_back(std::move(reply));
    });
    constexpr std::size_t kMost = 64;
    std::vector<UniqueFd> clients;
    for (std::size_t i = 0; i < kMost + 6; ++i) {
        clients.push_back(connect());
        send(clients.back(), "{\"verb\": \"wait\"}\n");
    }
    server_->run();
    EXPECT_EQ(replies.size(), kMost);
    EXPECT_EQ(server_->wanted().front().fd, -1) << "the daemon would spin";
    for (std::size_t i = 0; i < replies.size(); ++i) {
        replies[i]({{"number", i}});
        server_->run();
    }
    for (std::size_t i = 0; i < clients.size(); ++i) {
        const std::string expected = json{{"number", i}}.dump() + "\n";
        EXPECT_EQ(received(clients[i]), expected);
    }
}

// Not at once: whoever connects is about to ask.
TEST_F(ControlServerTest, WhoSaysNothingMakesRoomInTime) {
    using Clock = ControlServer::Clock;
    constexpr auto kHour = std::chrono::hours(1);
    ControlServer::Parameters parameters{.path = daemon_.socket(), .client_patience = 24 * kHour, .most_clients = 1};
    for (const bool is_due : {false, true}) {
        parameters.speaks_within = is_due ? std::chrono::milliseconds(1) : kHour;
        server_.reset();
        server_ = *ControlServer::listen(parameters, daemon_.handler());
        const UniqueFd silent = connect();
        server_->run();
        const UniqueFd waiting = connect();
        ASSERT_EQ(::send(waiting.get(), "{}\n", 3, 0), 3);
        std::string answer;
        if (is_due) {
            EXPECT_TRUE(
                test::wait_until([&] { return !(answer += received(waiting)).empty(); }, [&] { server_->run(); }));
        } else {
            server_->run();
            EXPECT_EQ(received(waiting), "");
            EXPECT_LT(server_->deadline(), Clock::now() + 2 * kHour) << "the daemon would sleep on";
            EXPECT_EQ(server_->wanted().front().fd, -1) << "the daemon would spin";
        }
    }
}

// A client takes a daemon that is silent for one that is stopped.
TEST_F(ControlServerTest, WhoWaitsIsToldThatThereWillBeAnAnswer) {
    server_.reset();
    server_ = *ControlServer::listen({.path = daemon_.socket(), .progress_period = {}}, daemon_.handler());
    const UniqueFd client = connect();
    const json create = {{"version", 1}, {"verb", "create"}, {"session", "a"}, {"directory", daemon_.outputs() / "a"}};
    send(client, create.dump() + "\n");
    // Its thread makes the session's place, and nobody listens to that meanwhile.
    server_->run();
    EXPECT_TRUE(received(client).starts_with(R"({"progress":"create: under way for )"));
    EXPECT_LE(server_->deadline(), ControlServer::Clock::now());
    std::string lines;
    const bool is_answered = test::wait_until([&] { return lines.find("\"ok\"") != std::string::npos; },
                                              [&] {
                                                  daemon_.wait();
                                                  server_->run();
                                                  lines += received(client);
                                              });
    ASSERT_TRUE(is_answered);
    const std::string answer = lines.substr(lines.rfind('\n', lines.size() - 2) + 1);
    EXPECT_EQ(json::parse(answer)["session"], "a");
    // Then there is nothing to be told.
    server_->run();
    EXPECT_EQ(received(client), "");
    EXPECT_GT(server_->deadline(), ControlServer::Clock::now());
}

TEST(Commands, TwoSessionsDoNotGoToOneDirectory) {
    test::ScratchDaemon daemon;
    const std::string place = daemon.outputs() / "one";
    EXPECT_EQ(daemon.ask({{"verb", "create"}, {"session", "a"}, {"directory", place}})["ok"], true);
    EXPECT_EQ(daemon.ask({{"verb", "create"}, {"session", "b"}, {"directory", place + "/"}})["ok"], false);
    EXPECT_EQ(daemon.ask({{"verb", "create"}, {"session", "b"}, {"directory", place + "2"}})["ok"], true);
}

TEST(Commands, ChunksWithoutTracesAreRotated) {
    test::ScratchDaemon daemon;
    EXPECT_EQ(daemon.ask({{"verb", "create"}, {"session", "a"}, {"directory", daemon.outputs() / "a"}})["ok"], true);
    EXPECT_EQ(daemon.ask({{"verb", "enable-event"}, {"pattern", "*"}})["ok"], true);
    EXPECT_EQ(daemon.ask({{"verb", "start"}})["ok"], true);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(daemon.ask({{"verb", "rotate"}})["ok"], true);
    EXPECT_EQ(daemon.ask({{"verb", "destroy"}})["warnings"], json::array());
}

TEST(Commands, NothingBeginsWhenTheDaemonEnds) {
    test::ScratchDaemon daemon;
    EXPECT_EQ(daemon.ask({{"verb", "create"}, {"session", "a"}, {"directory", daemon.outputs() / "a"}})["ok"], true);
    bool is_over = false;
    daemon.commands().destroy_all([&is_over] { is_over = true; });
    const std::string other = daemon.outputs() / "b";
    EXPECT_EQ(daemon.ask({{"verb", "create"}, {"session", "b"}, {"directory", other}})["ok"], false);
    EXPECT_TRUE(test::wait_until([&] { return is_over; }, [&] { daemon.wait(); }));
}

}  // namespace
}  // namespace leat::sessiond
