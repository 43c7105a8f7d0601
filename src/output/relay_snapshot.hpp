#pragma once

#include <poll.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "consumer/output.hpp"
#include "net/relay_address.hpp"
#include "output/relay_connection.hpp"

namespace leat::output {

// One trace of a snapshot on its way to a relay. Unlike a session, it does not go on after trouble: what has come to
// the relay by then has no metadata, so it is no trace. It is one when complete() has returned where.
class RelaySnapshot final : public consumer::Output {
  public:
    // Waits until the relay has made a directory, or has not: then the error says what to do. `session_start`, in s
    // since the epoch, is part of the name of the directory of all snapshots of the session.
    static Result<std::unique_ptr<RelaySnapshot>> connect(const net::RelayAddress& address,
                                                          const SessionDescription& session,
                                                          std::uint64_t session_start);

    Result<void> write_metadata(std::string_view unit) override;
    // The packet's records stay where they are until it is delivered.
    Result<void> write_packet(const consumer::Packet& packet) override;

    [[nodiscard]] std::vector<pollfd> wanted() const override;
    [[nodiscard]] Clock::time_point deadline() const override { return connection_->deadline(); }
    bool run() override;
    void flush() override { (void)run(); }
    [[nodiscard]] bool is_delivered() const override;
    [[nodiscard]] bool is_broken() const override { return error_.has_value(); }
    [[nodiscard]] std::uint64_t taken() const override { return connection_->taken(); }
    [[nodiscard]] Result<void> check_delivered() const override;

    // All packets are delivered, of all traces of the snapshot: this makes a trace of them. Waits, as long as the relay
    // shows some progress. Returns the snapshot's directory, below the relay's output directory.
    Result<std::string> complete();

  private:
    RelaySnapshot(const net::RelayAddress& address, const SessionDescription& session)
        : address_(address), session_(session) {}

    Result<void> connect(const net::HostAddress& host, std::uint64_t session_start);
    void wait_until(Clock::time_point time) const;
    [[nodiscard]] tl::unexpected<Error> trouble(std::string_view what) const;

    net::RelayAddress address_;
    SessionDescription session_;
    UnstoredPackets unstored_;  // outlive the connection
    std::unique_ptr<RelayConnection> connection_;
    std::optional<Error> error_;  // of the connection, which is not used any more
};

}  // namespace leat::output
