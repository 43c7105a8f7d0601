#pragma once

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "net/relay_address.hpp"
#include "relay/admission.hpp"
#include "relay/connection.hpp"
#include "relay/ingest/datagram_receiver.hpp"
#include "relay/metrics_thread.hpp"
#include "relay/relay.hpp"

namespace leat::relay {

// Listens on the three ports, and for datagrams on the one for data, and serves who comes, on as many threads as there
// are CPUs.
class Server {
  public:
    struct Parameters {
        std::string address = "127.0.0.1";
        std::uint16_t control_port = net::kControlPort;
        std::uint16_t data_port = net::kDataPort;
        std::uint16_t live_port = net::kLivePort;
        std::string output{};
        // Where they are not empty, they are used instead of `address`.
        std::string control_address{};
        std::string data_address{};
        std::string live_address{};
        std::size_t max_connections = 0;  // 0: as many as descriptors allow
        // For a new connection, to say something useful.
        std::chrono::milliseconds stranger_patience = std::chrono::seconds(30);
        bool is_clear_allowed = true;
        Grouping grouping = Grouping::kByHost;
        bool sync = false;      // a producer that asks what is stored hears what has reached the disk
        std::string metrics{};  // where to serve them, as MetricsServer::listen() takes it; empty: nowhere
    };
    // Ports are open from here on; 0 takes a free one. Forks: there are no threads yet.
    static Result<std::unique_ptr<Server>> create(const Parameters& parameters);
    ~Server();

    // Until stop(). All packets whose index we have acknowledged are on disk when it returns.
    void run();
    // Any thread; async-signal-unsafe.
    void stop();

    [[nodiscard]] std::uint16_t control_port() const { return control_.local_endpoint().port(); }
    [[nodiscard]] std::uint16_t data_port() const { return data_.local_endpoint().port(); }
    [[nodiscard]] std::uint16_t live_port() const { return live_.local_endpoint().port(); }
    // "ADDRESS:PORT"
    [[nodiscard]] std::string control_endpoint() const { return endpoint_of(control_); }
    [[nodiscard]] std::string data_endpoint() const { return endpoint_of(data_); }
    [[nodiscard]] std::string live_endpoint() const { return endpoint_of(live_); }
    // Empty if there are no metrics.
    [[nodiscard]] std::string metrics_endpoint() const { return metrics_ ? metrics_->endpoint() : std::string(); }
    // For signals.
    [[nodiscard]] asio::io_context& context() { return contexts_.front(); }

    // Of a process that may have so many descriptors: two sockets of a producer need about six files.
    static std::size_t default_max_connections(std::size_t descriptors);

  private:
    Server(const Parameters& parameters, ConfinedDirectory output, FileKeepers keepers);

    using Connections = std::vector<std::weak_ptr<Connection>>;
    static std::string endpoint_of(const asio::ip::tcp::acceptor& acceptor);

    // A message that crowds would repeat, at most once a second.
    struct Complaint {
        void operator()(const std::string& message);
        std::chrono::steady_clock::time_point next{};
        std::uint64_t suppressed = 0;
    };

    // `choose(n)` gives the thread of connection number n, modulo the number of threads.
    template <class ChooseThread, class MakeConnection>
    void serve(Admission::Port port, asio::ip::tcp::acceptor& acceptor, Connections& connections, ChooseThread choose,
               MakeConnection make);
    void turn_one_away(Admission::Port port, asio::ip::tcp::acceptor& acceptor, const asio::error_code& reason);
    [[nodiscard]] std::optional<std::size_t> thread_of_next_data() const;
    [[nodiscard]] std::optional<std::size_t> thread_of_next_viewer() const;
    Result<void> listen_for_data(const asio::ip::address& address, std::uint16_t port);
    asio::awaitable<void> keep_house();
    void end_sessions();
    void stop_when_drained(std::chrono::steady_clock::time_point begin);
    void stop_all();

    std::chrono::milliseconds stranger_patience_;
    std::shared_ptr<Admission> admission_;
    // Given up for a moment when there are no descriptors left, to turn somebody away.
    UniqueFd spare_descriptor_;
    Complaint complain_{};
    // One for each thread, and run by no other.
    struct Context : asio::io_context {
        Context() : asio::io_context(1) {}
    };
    std::deque<Context> contexts_;
    asio::ip::tcp::acceptor control_{context()};
    asio::ip::tcp::acceptor data_{context()};
    asio::ip::tcp::acceptor live_{context()};
    asio::steady_timer housekeeping_{context()};
    asio::steady_timer draining_{context()};
    using Guard = asio::executor_work_guard<asio::io_context::executor_type>;
    std::vector<Guard> guards_{};  // threads do not end while there is no connection
    Relay relay_;
    std::optional<DatagramReceiver> datagrams_{};
    std::mutex connections_mutex_;
    Connections controls_;
    Connections datas_;
    Connections viewers_;
    std::unique_ptr<MetricsThread> metrics_{};  // goes first: it looks at all of this
};

}  // namespace leat::relay
