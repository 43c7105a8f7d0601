#pragma once

#include <asio/awaitable.hpp>
#include <asio/ip/udp.hpp>
#include <asio/steady_timer.hpp>
#include <map>
#include <memory>
#include <vector>

#include "base/result.hpp"
#include "relay/datagram_window.hpp"
#include "relay/relay.hpp"

namespace leat::relay {

// Takes the data of sessions that send it as datagrams, on one socket for all. (document 000, "when we support UDP")
class DatagramReceiver {
  public:
    DatagramReceiver(asio::ip::udp::socket socket, Relay& relay);

    // Both until the socket is closed.
    asio::awaitable<void> receive();
    asio::awaitable<void> expire();
    void close();
    // All of these run there.
    [[nodiscard]] asio::ip::udp::socket::executor_type executor() { return socket_.get_executor(); }

    // What waits for its pieces, of all streams together: more is dropped, and shows as lost packets.
    static constexpr std::size_t kMaxBytes = 8U << 20;

  private:
    struct Source {
        std::shared_ptr<Session> session;
        std::shared_ptr<SessionStream> stream;
        DatagramWindow window{};
    };

    void handle(UntrustedBytes datagram);
    Source* find(std::uint64_t handle);
    void store(Source& source, Time now);

    asio::ip::udp::socket socket_;
    asio::steady_timer timer_;
    Relay* relay_;
    std::map<std::uint64_t, Source> sources_;  // by handle of the stream
    std::size_t bytes_ = 0;
    wire::Bytes buffer_;
};

}  // namespace leat::relay
