#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "consumer/output.hpp"
#include "consumer/relay_address.hpp"
#include "consumer/relay_connection.hpp"
#include "wire/connecting.hpp"

namespace leat::consumer {

// A session at a relay. When the connection breaks, a new one is tried again and again, and the session goes on there
// as a new part: all metadata, then all packets that are not known to be stored, with the numbers that they have.
//
// Owns no thread and does not wait, but for connect() and deliver(): the host polls for wanted() and calls run().
class RelayOutput final : public Output {
  public:
    using Clock = RelayConnection::Clock;

    // From a connection that breaks to the next; twice as long for each that does not come about.
    static constexpr std::chrono::milliseconds kShortestBackOff{100};

    // Waits until the relay has taken the session, or has not: then the error says what to do.
    static Result<std::unique_ptr<RelayOutput>> connect(const RelayAddress& address, const RelaySession& session,
                                                        Clock::duration shortest_back_off = kShortestBackOff);

    Result<void> write_metadata(std::string_view unit) override;
    Result<void> write_packet(const Packet& packet) override;
    Result<void> announce(std::span<const std::uint64_t> stream_instance_ids) override;
    void write_beacon(std::uint64_t stream_instance_id, std::uint64_t timestamp) override;
    [[nodiscard]] std::uint64_t stored(std::uint64_t stream_instance_id) const override;
    [[nodiscard]] std::uint64_t part() const override { return session_.live_timer_us == 0 ? 0 : part_; }

    // Does what can be done now. Whether the consumer has something to do about it: packets were stored, or a new part
    // began. To be called when something wanted() is there, and at the deadline().
    bool run();
    // Sends what can be sent of what was written. To be called behind writing.
    void flush();
    // Whether the relay has stored all packets.
    [[nodiscard]] bool is_delivered() const;
    [[nodiscard]] std::array<pollfd, 2> wanted() const;
    [[nodiscard]] Clock::time_point deadline() const;

    // The end: waits until everything is stored, as long as it goes forward.
    Result<void> deliver();
    // Ends the session at the relay, behind deliver().
    void close();

    // Bytes; larger ones may not get there.
    [[nodiscard]] std::size_t max_packet_size() const;
    [[nodiscard]] const RelayAddress& address() const { return address_; }
    [[nodiscard]] const RelaySession& session() const { return session_; }
    // What befell the connection, for the user; empties itself.
    [[nodiscard]] std::vector<std::string> take_warnings() { return std::exchange(warnings_, {}); }

    struct Figures {
        std::uint64_t packets_sent = 0;  // one that was sent again counts again
        std::uint64_t packets_stored = 0;
        std::uint64_t parts = 0;
        std::uint64_t packets_lost = 0;  // not known to be stored
        std::uint64_t events_lost = 0;
    };
    [[nodiscard]] Figures figures() const;

  private:
    struct Stream {
        std::deque<Packet> unstored;
        std::uint64_t stored = 0;  // the first number that is not
    };

    RelayOutput(const RelayAddress& address, const RelaySession& session, std::vector<wire::HostAddress> hosts,
                Clock::duration shortest_back_off)
        : address_(address), session_(session), hosts_(std::move(hosts)), shortest_back_off_(shortest_back_off) {}

    Result<void> open();
    void reopen();
    void give_up(const Error& error);
    void hand_over();
    bool forget_stored();
    void poll_until(Clock::time_point time) const;
    [[nodiscard]] std::string undelivered() const;

    RelayAddress address_;
    RelaySession session_;
    std::vector<wire::HostAddress> hosts_;
    std::size_t next_host_ = 0;
    Clock::duration shortest_back_off_;

    std::unique_ptr<RelayConnection> connection_;
    bool was_ready_ = false;  // this connection
    std::uint64_t part_ = 0;
    std::uint64_t creation_time_ = 0;  // of the latest part
    Clock::duration back_off_{};
    Clock::time_point retry_at_{};
    std::uint64_t sent_before_ = 0;  // packets, over former connections
    std::uint64_t packets_stored_ = 0;

    std::string metadata_;  // all of it
    std::map<std::uint64_t, Stream> streams_;
    std::vector<std::string> warnings_;
};

}  // namespace leat::consumer
