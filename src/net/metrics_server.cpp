#include "net/metrics_server.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/descriptors.hpp"
#include "net/host_and_port.hpp"

namespace leat::net {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMaxRequestSize = 8192;
constexpr std::size_t kMaxScrapers = 16;
constexpr auto kScraperPatience = 5s;

struct ListeningAddress {
    sockaddr_storage storage{};
    socklen_t size = 0;
};

Result<ListeningAddress> address_of(const std::string& text) {
    std::string_view rest = text;
    const std::string host = text.starts_with(':') ? "127.0.0.1" : take_host(rest);
    if (host.empty() || !rest.starts_with(':')) return refused("\"{}\" is not of the form ADDRESS:PORT", text);
    rest.remove_prefix(1);
    const auto port = rest == "0" ? Result<std::uint16_t>(0) : parse_port(rest);
    if (!port) return wrap(text, port.error());
    ListeningAddress address;
    auto& v4 = reinterpret_cast<sockaddr_in&>(address.storage);   // NOLINT(*-reinterpret-cast)
    auto& v6 = reinterpret_cast<sockaddr_in6&>(address.storage);  // NOLINT(*-reinterpret-cast)
    if (::inet_pton(AF_INET, host.c_str(), &v4.sin_addr) == 1) {
        v4.sin_family = AF_INET;
        v4.sin_port = htons(*port);
        address.size = sizeof v4;
    } else if (::inet_pton(AF_INET6, host.c_str(), &v6.sin6_addr) == 1) {
        v6.sin6_family = AF_INET6;
        v6.sin6_port = htons(*port);
        address.size = sizeof v6;
    } else {
        return refused("\"{}\" is no IP address of this host", host);
    }
    return address;
}

std::string http_answer(const char* status, const std::string& body) {
    return fmt::format(
        "HTTP/1.1 {}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\n"
        "Connection: close\r\n\r\n{}",
        status, body.size(), body);
}

}  // namespace

Result<void> MetricsServer::check_address(const std::string& address) {
    (void)LEAT_TRY(address_of(address));
    return {};
}

Result<std::unique_ptr<MetricsServer>> MetricsServer::listen(const std::string& address,
                                                             std::function<std::string()> page) {
    const ListeningAddress parsed = LEAT_TRY(address_of(address));
    UniqueFd socket(::socket(parsed.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket.is_open()) return io_error("cannot create a socket for metrics");
    const int on = 1;
    ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    // NOLINTNEXTLINE(*-reinterpret-cast)
    if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&parsed.storage), parsed.size) != 0 ||
        ::listen(socket.get(), static_cast<int>(kMaxScrapers)) != 0)
        return io_error("cannot serve metrics on " + address);
    return std::unique_ptr<MetricsServer>(new MetricsServer(std::move(socket), std::move(page)));
}

std::string MetricsServer::endpoint() const {
    sockaddr_storage storage{};
    socklen_t size = sizeof storage;
    auto* const address = reinterpret_cast<sockaddr*>(&storage);  // NOLINT(*-reinterpret-cast)
    std::array<char, NI_MAXHOST> host{};
    std::array<char, NI_MAXSERV> port{};
    if (::getsockname(socket_.fd(), address, &size) != 0 ||
        ::getnameinfo(address, size, host.data(), host.size(), port.data(), port.size(),
                      NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return {};
    return host_and_port(host.data(), static_cast<std::uint16_t>(std::strtoul(port.data(), nullptr, 10)));
}

std::vector<pollfd> MetricsServer::wanted() const {
    std::vector<pollfd> wanted{{connections_.size() < kMaxScrapers ? socket_.fd() : -1, POLLIN, 0}};
    for (const Connection& connection : connections_)
        wanted.push_back(
            {connection.socket.get(), static_cast<short>(connection.output.empty() ? POLLIN : POLLOUT), 0});
    return wanted;
}

MetricsServer::Clock::time_point MetricsServer::deadline() const {
    return connections_.empty() ? Clock::time_point::max() : connections_.front().since + kScraperPatience;
}

void MetricsServer::run() {
    accept_all();
    for (Connection& connection : connections_) {
        if (connection.output.empty()) receive(connection);
        send(connection);
    }
    const auto now = Clock::now();
    connections_.remove_if([now](const Connection& connection) {
        return connection.is_over || now - connection.since > kScraperPatience;
    });
}

void MetricsServer::accept_all() {
    while (connections_.size() < kMaxScrapers) {
        UniqueFd socket = socket_.accept();
        if (!socket.is_open()) return;
        connections_.push_back({.socket = std::move(socket), .since = Clock::now()});
    }
}

void MetricsServer::receive(Connection& connection) const {
    std::array<char, 4096> bytes{};
    const ssize_t size = ::recv(connection.socket.get(), bytes.data(), bytes.size(), 0);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (size <= 0) {
        connection.is_over = true;
        return;
    }
    connection.input.append(bytes.data(), static_cast<std::size_t>(size));
    if (connection.input.find("\r\n\r\n") != std::string::npos)
        connection.output = answer_to(connection.input);
    else if (connection.input.size() > kMaxRequestSize)
        connection.output = http_answer("400 Bad Request", "too long\n");
}

std::string MetricsServer::answer_to(const std::string& request) const {
    const std::string line = request.substr(0, request.find("\r\n"));
    if (!line.starts_with("GET ")) return http_answer("405 Method Not Allowed", "only GET\n");
    const std::string path = line.substr(4, line.find(' ', 4) - 4);
    if (path != "/metrics") return http_answer("404 Not Found", "see /metrics\n");
    return http_answer("200 OK", page_());
}

void MetricsServer::send(Connection& connection) {
    while (!connection.output.empty()) {
        const ssize_t size =
            ::send(connection.socket.get(), connection.output.data(), connection.output.size(), MSG_NOSIGNAL);
        if (size < 0 && errno == EINTR) continue;
        if (size < 0 && errno == EAGAIN) return;
        connection.is_over = size < 0 || static_cast<std::size_t>(size) == connection.output.size();
        if (connection.is_over) return;
        connection.output.erase(0, static_cast<std::size_t>(size));
    }
}

std::string metric_head(const char* name, const char* type, const char* help) {
    return fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

std::string metric_line(const char* name, const MetricLabels& labels, double value) {
    std::string text;
    for (const auto& [label, content] : labels) {
        text += fmt::format("{}{}=\"", text.empty() ? "" : ",", label);
        for (const char c : content) {
            if (c == '"' || c == '\\') text += '\\';
            text += c == '\n' ? ' ' : c;
        }
        text += '"';
    }
    return text.empty() ? fmt::format("{} {}\n", name, value) : fmt::format("{}{{{}}} {}\n", name, text, value);
}

std::string descriptor_metrics() {
    constexpr const char* kOpen = "process_open_fds";
    constexpr const char* kMost = "process_max_fds";
    return metric_head(kOpen, "gauge", "Open file descriptors") +
           metric_line(kOpen, {}, static_cast<double>(open_descriptors())) +
           metric_head(kMost, "gauge", "How many may be open: RLIMIT_NOFILE") +
           metric_line(kMost, {}, static_cast<double>(descriptor_limit()));
}

}  // namespace leat::net
