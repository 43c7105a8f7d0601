#pragma once

#include <poll.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "consumer/output.hpp"
#include "consumer/packet_ledger.hpp"
#include "ctf/model/trace_class.hpp"
#include "net/connecting.hpp"
#include "net/relay_address.hpp"
#include "net/stream_socket.hpp"
#include "output/data_link.hpp"
#include "wire/ingest/relay_messages.hpp"

namespace leat::output {

// What a relay is told about a session.
struct SessionDescription {
    std::string name;
    std::string hostname;
    std::string trace_path;           // below the session's directory: ust/uid/UID/64-bit
    std::string channel;              // streams are called CHANNEL_INSTANCE
    std::uint32_t live_timer_us = 0;  // 0: nobody reads while it runs, and beacons stay at home
    // Of each stream: bytes, and how many are kept, the oldest being written over. 0: without limit.
    std::uint64_t tracefile_size = 0;
    std::uint64_t tracefile_count = 0;
    ctf::Uuid trace_uuid{};
};

// Of each stream, by its instance id. A session's parts share them: what one has not stored, the next one sends again.
using UnstoredPackets = std::map<std::uint64_t, consumer::PacketLedger<consumer::Packet>>;

// One part of a session at a relay, from the first connection to the first trouble: LTTng's relay ingest protocol 2.11
// to 2.13 ([LTTng-2.13]), the tracing side. Never blocks and owns no thread: it does what it can when it is called.
//
// Everything goes through the control connection in the order in which it happened, so metadata and announcements are
// there before the index of any packet that needs them; and an index leaves behind its packet.
class RelayConnection {
  public:
    using Clock = std::chrono::steady_clock;

    // Starts to connect; nobody waits. `creation_time`, s since the epoch, tells the parts of a session apart.
    // `unstored` outlives the connection and holds only packets that wait to be sent: the connection notes there how
    // far they come.
    static Result<std::unique_ptr<RelayConnection>> open(const net::HostAddress& host, const net::RelayAddress& address,
                                                         const SessionDescription& session, std::uint64_t creation_time,
                                                         UnstoredPackets& unstored);

    // All from here on may be called at any time; what the relay is not ready for waits.
    void announce(std::span<const std::uint64_t> stream_instance_ids);
    void send_metadata(std::string_view unit);
    // The packet is in its stream's ledger. Packets of all streams leave in the order of these calls.
    void send_packet(const consumer::Packet& packet);
    void send_beacon(std::uint64_t stream_instance_id, std::uint64_t timestamp);
    // Ends the session, as tracers do. Nothing may be sent from here on.
    void close();

    // Reads and writes what there is. An error is the end of this connection, in words that follow "relay HOST: ".
    Result<void> run(Clock::time_point now);
    // The half of it that writes.
    Result<void> send(Clock::time_point now);

    // Session and chunk are made, data can flow.
    [[nodiscard]] bool is_ready() const { return step_ >= Step::kReady && data_ && data_->is_connected(); }
    [[nodiscard]] bool is_closed() const { return step_ == Step::kClosing && expected_.empty(); }
    [[nodiscard]] std::uint64_t packets_sent() const { return packets_sent_; }
    // Grows while the relay takes something, long before it has stored it if the line is slow; to repeat that nothing
    // is stored yet does not count.
    [[nodiscard]] std::uint64_t taken() const { return answers_ + (data_ ? data_->arrived() : 0); }

    [[nodiscard]] std::array<pollfd, 2> wanted() const;
    // When to call run() even if nothing can be read or written.
    [[nodiscard]] Clock::time_point deadline() const;

  private:
    enum class Step { kVersion, kConfiguration, kSession, kChunk, kReady, kClosing };

    // A reply that is to come.
    struct Expected {
        wire::RelayCommand command;
        std::uint64_t stream_instance_id = 0;  // ADD_STREAM, DATA_PENDING
        bool is_metadata = false;              // ADD_STREAM
    };
    struct SentStream {
        consumer::PacketLedger<consumer::Packet>* packets;
        std::optional<std::uint64_t> handle{};
        std::uint64_t stream_class_id = 0;      // as its packets say; beacons repeat it for viewers
        std::optional<std::uint64_t> beacon{};  // that waits for packets that are not sent

        [[nodiscard]] std::uint64_t last_sent() const { return packets->last_sent().value_or(wire::kNoPacket); }
    };

    RelayConnection(const net::HostAddress& host, const net::RelayAddress& address, const SessionDescription& session,
                    std::uint64_t creation_time, UnstoredPackets& unstored, net::StreamSocket control,
                    Clock::time_point now);

    template <class Message>
    void request(wire::RelayCommand command, const Message& message, Expected expected);
    template <class Message>
    void request(wire::RelayCommand command, const Message& message) {
        request(command, message, {.command = command});
    }
    void request_session();
    void request_streams(std::span<const std::uint64_t> stream_instance_ids);
    void flush_metadata();
    SentStream& stream_of(std::uint64_t stream_instance_id);
    Result<void> send_data(Clock::time_point now);
    void send_index(const consumer::Packet& packet, SentStream& stream);
    void send_pending_beacon(SentStream& stream);
    void ask_what_is_stored(Clock::time_point now);

    Result<void> handle_replies(Clock::time_point now);
    // Bytes of the reply at the front of `input_`; nothing: not all of it is there.
    [[nodiscard]] Result<std::optional<std::size_t>> reply_size(wire::RelayCommand command) const;
    Result<void> handle_reply(const Expected& expected, UntrustedBytes bytes, Clock::time_point now);
    Result<void> handle_version(UntrustedBytes bytes);
    Result<void> handle_configuration(UntrustedBytes bytes);
    Result<void> handle_session(UntrustedBytes bytes);
    Result<std::unique_ptr<DataLink>> open_data_link() const;
    Result<void> handle_stream(const Expected& expected, UntrustedBytes bytes);
    Result<void> handle_stored(const Expected& expected, UntrustedBytes bytes, Clock::time_point now);
    void ask_at(Clock::time_point time);
    [[nodiscard]] bool waits_for_answer() const;

    net::HostAddress host_;
    net::RelayAddress address_;
    SessionDescription session_;
    std::uint64_t creation_time_;
    net::StreamSocket control_;
    std::unique_ptr<DataLink> data_;
    Step step_ = Step::kVersion;
    std::uint32_t minor_ = wire::kProtocolMinor;
    Clock::time_point give_up_at_;  // on the handshake

    net::SendQueue output_;
    wire::Bytes input_;
    std::deque<Expected> expected_;
    std::uint64_t answers_ = 0;  // but those of DATA_PENDING

    UnstoredPackets* unstored_;
    std::map<std::uint64_t, SentStream> streams_;
    std::deque<SentStream*> turns_;  // whose packet is next: one turn for each packet that is not sent
    bool is_metadata_announced_ = false;
    std::optional<std::uint64_t> metadata_handle_;
    std::string unsent_metadata_;
    std::uint64_t packets_sent_ = 0;

    std::uint64_t unconfirmed_bytes_ = 0;  // since we last asked
    std::uint64_t unconfirmed_packets_ = 0;
    std::optional<Clock::time_point> ask_at_;
};

}  // namespace leat::output
