#include "net/metrics_server.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>

#include "net/host_and_port.hpp"

namespace leat::net {
namespace {

using namespace std::chrono_literals;

class MetricsServerTest : public testing::Test {
  protected:
    MetricsServerTest() {
        auto server = MetricsServer::listen(":0", [] { return std::string("leat_up 1\n"); });
        EXPECT_TRUE(server);
        server_ = *std::move(server);
    }

    [[nodiscard]] UniqueFd connect() const {
        const std::string endpoint = server_->endpoint();
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(*parse_port(endpoint.substr(endpoint.find(':') + 1)));
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        // NOLINTNEXTLINE(*-reinterpret-cast)
        EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
        return socket;
    }
    void run() {
        auto wanted = server_->wanted();
        ::poll(wanted.data(), wanted.size(), 100);
        server_->run();
    }
    // What the server says until it ends the connection.
    std::string ask(const std::string& request) {
        const UniqueFd socket = connect();
        EXPECT_EQ(::send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL),
                  static_cast<ssize_t>(request.size()));
        std::string answer;
        for (int turn = 0; turn < 100; ++turn) {
            run();
            std::array<char, 4096> bytes{};
            const ssize_t size = ::recv(socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
            if (size == 0) break;
            if (size > 0) answer.append(bytes.data(), static_cast<std::size_t>(size));
        }
        return answer;
    }

    std::unique_ptr<MetricsServer> server_;
};

TEST_F(MetricsServerTest, PageIsServed) {
    const std::string answer = ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\n")) << answer;
    EXPECT_NE(answer.find("Content-Length: 10\r\n"), std::string::npos) << answer;
    EXPECT_TRUE(answer.ends_with("\r\n\r\nleat_up 1\n")) << answer;
}

TEST_F(MetricsServerTest, OtherRequestsAreRefused) {
    EXPECT_TRUE(ask("GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
    EXPECT_TRUE(ask("POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
    EXPECT_TRUE(ask(std::string(10'000, 'x')).starts_with("HTTP/1.1 400 "));
    EXPECT_TRUE(ask("\r\n\r\n").starts_with("HTTP/1.1 405 "));
}

TEST_F(MetricsServerTest, RequestMayComeInPieces) {
    const UniqueFd socket = connect();
    for (const char c : std::string("GET /metrics HTTP/1.0\r\n\r\n")) {
        ASSERT_EQ(::send(socket.get(), &c, 1, MSG_NOSIGNAL), 1);
        run();
    }
    std::array<char, 4096> bytes{};
    EXPECT_GT(::recv(socket.get(), bytes.data(), bytes.size(), 0), 10);
}

TEST_F(MetricsServerTest, SilentConnectionsAreFew) {
    std::vector<UniqueFd> silent;
    // So many that the last ones wait in the backlog.
    for (int i = 0; i < 20; ++i) {
        silent.push_back(connect());
        server_->run();
    }
    EXPECT_LE(server_->wanted().size(), 17U);
    EXPECT_LE(server_->deadline(), MetricsServer::Clock::now() + 5s);
}

TEST(MetricsServer, AddressesThatMakeNoSense) {
    for (const char* const address : {"", "x", "127.0.0.1", "127.0.0.1:", "127.0.0.1:70000", "name:80", "[::1]"})
        EXPECT_FALSE(MetricsServer::listen(address, [] { return std::string(); })) << address;
}

TEST(MetricsServer, LabelsAreEscaped) {
    EXPECT_EQ(metric_line("a", {}, 1), "a 1\n");
    EXPECT_EQ(metric_line("a", {{"x", "q\"b\\n\n"}, {"y", ""}}, 2.5), "a{x=\"q\\\"b\\\\n \",y=\"\"} 2.5\n");
}

}  // namespace
}  // namespace leat::net
