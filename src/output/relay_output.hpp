#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "consumer/output.hpp"
#include "net/connecting.hpp"
#include "net/name_lookup.hpp"
#include "net/relay_address.hpp"
#include "output/relay_connection.hpp"
#include "output/remote_output.hpp"

namespace leat::output {

// A session at a relay. When the connection breaks, a new one is tried again and again, and the session goes on there
// as a new part: all metadata, then all packets that are not known to be stored, with the numbers that they have.
class RelayOutput final : public RemoteOutput {
  public:
    // From a connection that breaks to the next; twice as long for each that does not come about.
    static constexpr std::chrono::milliseconds kShortestBackOff{100};
    // A busy relay confirms something more often, unless its line is so slow that what was sent takes longer to arrive.
    static constexpr std::chrono::seconds kStandsStill{5};

    // Waits until the relay has taken the session, or has not: then the error says what to do.
    static Result<std::unique_ptr<RelayOutput>> connect(const net::RelayAddress& address,
                                                        const SessionDescription& session,
                                                        Clock::duration shortest_back_off = kShortestBackOff);
    // Waits for nothing: connects when run() is called, and tries again until the relay is there.
    enum class Place { kAlone, kBesideAnother };
    static std::unique_ptr<RelayOutput> begin(const net::RelayAddress& address, const SessionDescription& session,
                                              Place place, Clock::duration shortest_back_off = kShortestBackOff);

    Result<void> write_metadata(std::string_view unit) override;
    // Returns when the relay has stored it; if it does not, only the parts to come have the new offset. Refused where
    // viewers may have read what is to be replaced.
    Result<std::string> set_clock_offset(std::uint64_t offset) override;
    Result<void> ask_for_clock_offset(std::uint64_t offset) override;
    Result<void> write_packet(const consumer::Packet& packet) override;
    Result<void> announce(std::span<const consumer::StreamId> streams) override;
    void write_beacon(consumer::StreamId stream, std::uint64_t timestamp) override;
    [[nodiscard]] std::uint64_t stored(consumer::StreamId stream) const override;
    [[nodiscard]] std::uint64_t part() const override {
        return (session_.live_timer_us == 0 ? 0 : part_) + chunks_begun_;
    }

    [[nodiscard]] std::size_t max_packet_size() const override;

    [[nodiscard]] std::vector<pollfd> wanted() const override;
    [[nodiscard]] Clock::time_point deadline() const override;
    bool run() override;
    void flush() override;
    [[nodiscard]] bool is_delivered() const override;
    // Over all connections that became ready; of those that have stored nothing, only what is more than others took:
    // one that is refused again and again comes no further.
    [[nodiscard]] std::uint64_t taken() const override;
    // Packets wait, and it is away, or has stored none of them for kStandsStill.
    [[nodiscard]] std::string storage_trouble() const override;
    [[nodiscard]] Result<void> check_delivered() const override;
    // Waits until the relay has answered everything: what it does not do then, it will not do.
    Result<void> prepare_chunk(const std::filesystem::path& directory) override;
    // If the connection breaks in the middle, the session goes on as a new part, in a chunk of its own.
    Result<std::string> begin_chunk() override;
    Result<void> clear() override;
    // Ends the session at the relay.
    void begin_close() override;
    [[nodiscard]] bool awaits_close() const override;
    [[nodiscard]] std::vector<std::string> take_warnings() override { return std::exchange(warnings_, {}); }

    [[nodiscard]] bool is_connected() const override { return connection_ && connection_->is_ready(); }
    [[nodiscard]] bool is_connecting() const override;
    [[nodiscard]] std::uint64_t connections() const override { return part_; }
    [[nodiscard]] bool is_settled() const override {
        return connection_ && connection_->is_answered() && is_delivered();
    }
    void forget_packets() override;
    void ask_for_chunk() override;
    Result<void> ask_for_clear() override;

    [[nodiscard]] const net::RelayAddress& address() const { return address_; }
    [[nodiscard]] const SessionDescription& session() const { return session_; }

    struct Figures {
        std::uint64_t packets_sent = 0;  // one that was sent again counts again
        std::uint64_t packets_stored = 0;
        std::uint64_t parts = 0;
        std::uint64_t packets_lost = 0;  // not known to be stored
        std::uint64_t events_lost = 0;
    };
    [[nodiscard]] Figures figures() const;

  private:
    RelayOutput(const net::RelayAddress& address, const SessionDescription& session,
                std::vector<net::HostAddress> hosts, Clock::duration shortest_back_off)
        : address_(address), session_(session), hosts_(std::move(hosts)), shortest_back_off_(shortest_back_off) {}

    Result<void> open();
    void reopen();
    void look_up();
    [[nodiscard]] bool awaits_name() const { return lookup_ && hosts_.empty(); }
    void fail_connection(const Error& error);
    void disconnect();
    void run_close();
    void turn_to_chunk(wire::ChunkCommand what_becomes_of_it);
    [[nodiscard]] Result<void> check_clear() const;
    void hand_over();
    [[nodiscard]] std::uint64_t packets_stored() const;
    [[nodiscard]] bool has_tried_all_hosts() const;
    void poll_until(Clock::time_point time) const;
    bool await_answers();
    Result<std::string> switch_chunk(wire::ChunkCommand what_becomes_of_it, const char* what);
    [[nodiscard]] std::string undelivered() const;

    net::RelayAddress address_;
    SessionDescription session_;
    std::vector<net::HostAddress> hosts_;  // none: not found yet
    std::optional<net::NameLookup> lookup_{};
    bool is_lookup_due_ = false;  // all addresses that we know were tried in vain
    Place place_ = Place::kAlone;
    std::size_t next_host_ = 0;
    Clock::duration shortest_back_off_;

    UnstoredPackets unstored_;  // outlive the connection
    std::unique_ptr<RelayConnection> connection_;
    bool was_ready_ = false;  // this connection
    bool is_closing_ = false;
    std::uint64_t part_ = 0;
    std::uint64_t chunks_begun_ = 0;   // but the first of each part
    std::uint64_t creation_time_ = 0;  // of the latest part
    Clock::duration back_off_{};
    std::size_t failures_ = 0;  // since it was ready
    std::string last_failure_;
    Clock::time_point retry_at_{};
    std::uint64_t sent_before_ = 0;  // packets, over former connections
    std::uint64_t taken_before_ = 0;
    std::uint64_t taken_in_vain_ = 0;  // beyond that, by connections that have stored nothing
    std::uint64_t stored_before_ = 0;  // packets, when the connection was opened
    // While packets wait: since the first came, or since the last of them was stored.
    std::optional<Clock::time_point> stands_still_since_;
    Clock::time_point last_run_{};

    std::string metadata_;  // all of it
    std::vector<std::string> warnings_;
};

}  // namespace leat::output
