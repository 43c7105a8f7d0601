#pragma once

#include "base/unique_fd.hpp"
#include "net/stream_socket.hpp"
#include "output/data_link.hpp"

namespace leat::output {

// Sends packets over a data connection.
class TcpLink final : public DataLink {
  public:
    explicit TcpLink(net::StreamSocket socket) : socket_(std::move(socket)) {}

    [[nodiscard]] bool is_connected() const override { return is_connected_; }
    [[nodiscard]] bool is_idle() const override { return head_.empty(); }
    void begin(const consumer::Packet& packet, std::uint64_t stream_handle) override;
    Result<void> flush(Clock::time_point now) override;
    // Notices when the connection is established. Fails if the relay sends anything: it never does.
    Result<void> check() override;
    [[nodiscard]] std::uint64_t arrived() const override { return socket_.acknowledged_bytes(); }
    [[nodiscard]] pollfd wanted() const override;

  private:
    net::StreamSocket socket_;
    bool is_connected_ = false;
    std::vector<std::byte>
        head_;  // data header, packet header, and the first record's header if it differs; empty: idle
    UntrustedBytes records_;
    std::size_t sent_ = 0;  // bytes of both
};

}  // namespace leat::output
