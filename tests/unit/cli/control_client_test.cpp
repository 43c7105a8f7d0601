#include "cli/control_client.hpp"

#include <gtest/gtest.h>

#include "base/local_socket.hpp"
#include "support/patience.hpp"
#include "unit/cli/fake_daemon.hpp"

namespace leat::cli {
namespace {

using namespace std::chrono_literals;

constexpr char kAnswer[] = "{\"ok\": true, \"session\": \"web\", \"warnings\": []}\n";

class ControlClientTest : public testing::Test {
  protected:
    Result<Json> ask(const Json& request, std::chrono::milliseconds patience = test::test_patience()) {
        auto client = ControlClient::connect({directory_.socket()}, patience);
        if (!client) return tl::unexpected(client.error());
        return client->ask(request, [this](const std::string& text) { progress_.push_back(text); });
    }

    // The error of a request that is answered like this.
    std::string error_of(const std::vector<std::string>& pieces) {
        FakeDaemon daemon(directory_.socket(), [&](const Json&) { return pieces; });
        const auto answer = ask({{"verb", "list"}});
        EXPECT_FALSE(answer);
        return answer ? "" : answer.error().message;
    }

    RuntimeDirectoryForTests directory_;
    std::vector<std::string> progress_;
};

TEST_F(ControlClientTest, RequestHasVersionAndAnswerComesBack) {
    FakeDaemon daemon(directory_.socket(), [](const Json&) { return std::vector<std::string>{kAnswer}; });
    const auto answer = ask({{"verb", "start"}, {"session", "web"}});
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(answer->at("session"), "web");
    EXPECT_EQ(daemon.requests().at(0), Json({{"verb", "start"}, {"session", "web"}, {"version", 1}}));
}

TEST_F(ControlClientTest, AnswerInPiecesAndProgressBeforeIt) {
    FakeDaemon daemon(directory_.socket(), [](const Json&) {
        return std::vector<std::string>{"{\"progress\": \"half",
                                        " way\"}\n{\"progress\": \"nearly\"}\n{\"ok\":", " true}\n"};
    });
    ASSERT_TRUE(ask({{"verb", "stop"}}));
    EXPECT_EQ(progress_, (std::vector<std::string>{"half way", "nearly"}));
}

TEST_F(ControlClientTest, SecondRequestOnTheSameConnection) {
    FakeDaemon daemon(directory_.socket(), [](const Json&) { return std::vector<std::string>{kAnswer}; });
    auto client = ControlClient::connect({directory_.socket()});
    ASSERT_TRUE(client);
    ASSERT_TRUE(client->ask({{"verb", "stop"}}, {}));
    ASSERT_TRUE(client->ask({{"verb", "start"}}, {}));
    EXPECT_EQ(daemon.requests().size(), 2U);
}

TEST_F(ControlClientTest, NobodyListens) {
    const auto answer = ask({{"verb", "list"}});
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().kind, ErrorKind::kNotFound);
    EXPECT_EQ(answer.error().message,
              "no session daemon is running: leat create NAME starts one, and leat-sessiond --background one that goes "
              "on with "
              "the sessions of one that was killed");
}

TEST_F(ControlClientTest, SocketOfDeadDaemonIsPassedOver) {
    {
        FakeDaemon dead(directory_.path() / "dead.sock", [](const Json&) { return std::vector<std::string>{}; });
    }
    FakeDaemon daemon(directory_.socket(), [](const Json&) { return std::vector<std::string>{kAnswer}; });
    EXPECT_TRUE(ControlClient::connect({directory_.path() / "dead.sock", directory_.socket()}));
}

TEST_F(ControlClientTest, TooLongPathIsRefused) {
    const auto client = ControlClient::connect({"/tmp/" + std::string(200, 'x')});
    ASSERT_FALSE(client);
    EXPECT_NE(client.error().message.find("too long for a socket"), std::string::npos);
}

TEST_F(ControlClientTest, SilentDaemonIsGivenUp) {
    std::atomic<bool> may_end = false;
    FakeDaemon daemon(directory_.socket(), [&](const Json&) {
        while (!may_end) std::this_thread::yield();
        return std::vector<std::string>{};
    });
    const auto answer = ask({{"verb", "list"}}, 50ms);
    may_end = true;
    ASSERT_FALSE(answer);
    EXPECT_NE(answer.error().message.find("did not answer within"), std::string::npos);
}

TEST_F(ControlClientTest, DaemonThatAcceptsNobodyIsGivenUp) {
    const auto listener = listen_at(directory_.socket(), {.backlog = 0});
    ASSERT_TRUE(listener);
    const auto waiting = ControlClient::connect({directory_.socket()}, 50ms);
    ASSERT_TRUE(waiting);
    const auto refused = ControlClient::connect({directory_.socket()}, 50ms);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find("did not answer within"), std::string::npos);
}

TEST_F(ControlClientTest, AnswersThatAreNone) {
    EXPECT_EQ(error_of({}), "the session daemon closed the connection without an answer");
    EXPECT_NE(error_of({"hello\n"}).find("not JSON"), std::string::npos);
    EXPECT_EQ(error_of({"[]\n"}), "the session daemon's answer is not a JSON object");
    EXPECT_EQ(error_of({"{}\n"}), "the session daemon's answer does not say whether it is ok");
    EXPECT_EQ(error_of({"{\"ok\": 1}\n"}), "the session daemon's answer does not say whether it is ok");
    EXPECT_EQ(error_of({"{\"progress\": 7}\n"}), "the session daemon's answer does not say whether it is ok");
    EXPECT_NE(error_of({"{\"ok\": \"\xff\"}\n"}).find("not JSON"), std::string::npos);
    EXPECT_NE(error_of({std::string(100'000, '[') + "\n"}).find("answer cannot be read"), std::string::npos);
    EXPECT_NE(error_of({"{\"ok\": " + std::string(80, '[') + std::string(80, ']') + "}\n"}).find("too deeply"),
              std::string::npos);
}

TEST_F(ControlClientTest, AnswerThatIsCutInHalf) {
    FakeDaemon daemon(directory_.socket(), [count = 0](const Json&) mutable {
        return ++count == 1 ? std::vector<std::string>{"{\"ok\": tr"} : std::vector<std::string>{};
    });
    auto client = ControlClient::connect({directory_.socket()}, 200ms);
    ASSERT_TRUE(client);
    EXPECT_FALSE(client->ask({{"verb", "list"}}, {}));
}

TEST_F(ControlClientTest, EndlessAnswerIsRefused) {
    const std::string part(1U << 20U, ' ');
    EXPECT_NE(error_of(std::vector<std::string>(66, part)).find("longer than 64 MiB"), std::string::npos);
}

TEST_F(ControlClientTest, ObjectOfVeryManyMembersIsRefused) {
    std::string members = "{\"ok\": true";
    for (int i = 0; i < 200'000; ++i) members += fmt::format(",\"m{}\":1", i);
    EXPECT_NE(error_of({members + "}\n"}).find("too many members"), std::string::npos);
}

TEST_F(ControlClientTest, RequestThatCannotBeSent) {
    FakeDaemon daemon(directory_.socket(), [](const Json&) { return std::vector<std::string>{kAnswer}; });
    const auto bad = ask({{"verb", "create"}, {"session", "\xff"}});
    ASSERT_FALSE(bad);
    EXPECT_NE(bad.error().message.find("not UTF-8"), std::string::npos);
    const auto long_one = ask({{"verb", "create"}, {"session", std::string(2U << 20U, 'x')}});
    ASSERT_FALSE(long_one);
    EXPECT_NE(long_one.error().message.find("too long"), std::string::npos);
}

}  // namespace
}  // namespace leat::cli
