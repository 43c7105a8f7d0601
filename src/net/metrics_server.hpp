#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "base/listener.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace leat::net {

// Serves a page of metrics to Prometheus, and to whoever else asks for /metrics by HTTP: one request a connection.
// Never blocks; the host polls for wanted() and calls run(). One thread.
class MetricsServer {
  public:
    using Clock = std::chrono::steady_clock;

    // `address`: "ADDRESS:PORT", of this host, an IPv6 address in brackets; ":PORT" is that of 127.0.0.1, port 0 a free
    // one. `page` makes the text of each answer ([Prometheus-text]).
    static Result<void> check_address(const std::string& address);
    static Result<std::unique_ptr<MetricsServer>> listen(const std::string& address, std::function<std::string()> page);

    // "127.0.0.1:9464"
    [[nodiscard]] std::string endpoint() const;

    [[nodiscard]] std::vector<pollfd> wanted() const;
    [[nodiscard]] Clock::time_point deadline() const;
    void run();

  private:
    struct Connection {
        UniqueFd socket;
        Clock::time_point since;
        std::string input{};
        std::string output{};
        bool is_over = false;
    };

    MetricsServer(UniqueFd socket, std::function<std::string()> page)
        : socket_(std::move(socket), "readers of metrics"), page_(std::move(page)) {}
    void accept_all();
    void receive(Connection& connection) const;
    [[nodiscard]] std::string answer_to(const std::string& request) const;
    static void send(Connection& connection);

    Listener socket_;
    std::function<std::string()> page_;
    std::list<Connection> connections_;
};

// What comes before the lines of one metric.
std::string metric_head(const char* name, const char* type, const char* help);
// One line of a page: NAME{label="value",...} number. Values are escaped.
using MetricLabels = std::vector<std::pair<const char*, std::string>>;
std::string metric_line(const char* name, const MetricLabels& labels, double value);
// Descriptors of this process, as Prometheus' own libraries call them.
std::string descriptor_metrics();

}  // namespace leat::net
