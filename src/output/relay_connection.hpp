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
#include "output/channel_files.hpp"
#include "output/data_link.hpp"
#include "wire/ingest/relay_messages.hpp"

namespace leat::output {

// What a relay is told about a snapshot. Its traces come over connections of their own; by all of this, they end in one
// directory.
struct SnapshotDescription {
    std::string name;                       // of the directory
    std::array<std::uint8_t, 16> sender{};  // the same for all snapshots of a session, as far as these come about
    std::uint64_t number = 0;               // of the sender's snapshots, each has its own
};

// What a relay is told about a session.
struct SessionDescription {
    std::string name;
    std::string hostname;
    std::string trace_path;  // below the session's directory: ust/uid/UID/64-bit
    std::vector<ChannelFiles> channels;
    std::uint32_t live_timer_us = 0;  // 0: nobody reads while it runs, and beacons stay at home
    ctf::Uuid trace_uuid{};
    std::optional<SnapshotDescription> snapshot{};
};

// In words that say what to do.
tl::unexpected<Error> cannot_connect(const net::RelayAddress& address, const Error& error);
// Tells our sessions from those of all other tracers at the relay.
std::array<std::uint8_t, 16> random_sender();

// Of each stream. A session's parts share them: what one has not stored, the next one sends again.
using UnstoredPackets = std::map<consumer::StreamId, consumer::PacketLedger<consumer::Packet>>;

// One part of a session at a relay, from the first connection to the first trouble: LTTng's relay ingest protocol 2.11
// to 2.13 ([LTTng-2.13]), the tracing side. Never blocks and owns no thread: it does what it can when it is called.
//
// Everything goes through the control connection in the order in which it happened, so metadata and announcements are
// there before the index of any packet that needs them; and an index leaves behind its packet.
//
// A snapshot has no indexes, and its metadata comes last: relays have no way to rename a directory, but without
// metadata it is no trace. So one that is cut off is none.
//
//     ADD_STREAM data, packets, DATA_PENDING; close(): ADD_STREAM metadata, SEND_METADATA, CLOSE_STREAM,
//     CLOSE_TRACE_CHUNK
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
    void announce(std::span<const consumer::StreamId> streams);
    void send_metadata(std::string_view unit);
    // All of it, in place of what was sent; not in a live session, whose viewers have read that. What was sent has the
    // same length in `text`, and lies where it did in the relay's file: those who follow that go on where they were.
    //
    //     RESET_METADATA, SEND_METADATA, QUIESCENT_CONTROL
    void replace_metadata(std::string_view text);
    // The packet is in its stream's ledger. Packets of all streams leave in the order of these calls.
    void send_packet(const consumer::Packet& packet);
    void send_beacon(consumer::StreamId id, std::uint64_t timestamp);
    // The session goes on in another chunk, which gets `metadata`, all there is; the chunk before is archived or
    // deleted. Only if is_answered() and all packets are stored: their numbers tell where the new chunk begins.
    //
    //     CREATE_TRACE_CHUNK n+1, ROTATE_STREAMS data, ROTATE_STREAMS metadata, SEND_METADATA, CLOSE_TRACE_CHUNK n
    //
    // Where the chunk before is, closed_chunk() tells when is_answered() again; of a snapshot, when is_closed().
    void switch_chunk(std::string_view metadata, wire::ChunkCommand what_becomes_of_it);
    [[nodiscard]] const std::string& closed_chunk() const { return closed_chunk_; }
    // Ends the session, as tracers do, once the relay has a stream for the metadata: until is_closed(), call it again.
    // Nothing may be sent from here on.
    void close();

    // Reads and writes what there is. An error is the end of this connection, in words that follow "relay HOST: ".
    Result<void> run(Clock::time_point now);
    // The half of it that writes.
    Result<void> send(Clock::time_point now);

    // Session and chunk are made, data can flow.
    [[nodiscard]] bool is_ready() const { return step_ >= Step::kReady && data_ && data_->is_connected(); }
    // Whether the relay has answered all that it was asked.
    [[nodiscard]] bool is_answered() const { return is_ready() && expected_.empty() && turns_.empty(); }
    // Whether the relay lets producers clear a session. Before 2.12 there is no way to ask, and the answer is no.
    [[nodiscard]] bool allows_clear() const { return allows_clear_; }
    [[nodiscard]] bool is_closed() const { return step_ == Step::kClosing && expected_.empty(); }
    [[nodiscard]] std::uint64_t packets_sent() const { return packets_sent_; }
    // Grows while the relay takes or stores something, long before it has stored it if the line is slow; to repeat that
    // nothing is stored yet does not count.
    [[nodiscard]] std::uint64_t taken() const { return answers_ + (data_ ? data_->arrived() : 0); }

    [[nodiscard]] std::array<pollfd, 2> wanted() const;
    // When to call run() even if nothing can be read or written.
    [[nodiscard]] Clock::time_point deadline() const;

  private:
    enum class Step { kVersion, kConfiguration, kSession, kChunk, kReady, kClosing };

    // A reply that is to come.
    struct Expected {
        wire::RelayCommand command;
        consumer::StreamId stream{};  // ADD_STREAM, DATA_PENDING
        bool is_metadata = false;     // ADD_STREAM
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
    void request_chunk(std::uint64_t creation_time);
    [[nodiscard]] std::uint64_t time_in_chunk() const;
    void request_metadata_stream();
    void request_end_of_streams();
    void close_snapshot();
    void request_streams(std::span<const consumer::StreamId> streams);
    void flush_metadata();
    void append_metadata(UntrustedBytes packets, std::uint32_t padding);
    SentStream& stream_of(consumer::StreamId id);
    Result<void> send_data(Clock::time_point now);
    void send_index(const consumer::Packet& packet, SentStream& stream);
    void send_pending_beacon(SentStream& stream);
    void ask_what_is_stored(Clock::time_point now);
    void rotate_streams(std::optional<std::uint64_t> chunk);

    Result<void> handle_replies(Clock::time_point now);
    // Bytes of the reply at the front of `input_`; nothing: not all of it is there.
    [[nodiscard]] Result<std::optional<std::size_t>> reply_size(wire::RelayCommand command) const;
    Result<void> handle_reply(const Expected& expected, UntrustedBytes bytes, Clock::time_point now);
    Result<void> handle_version(UntrustedBytes bytes);
    Result<void> handle_configuration(UntrustedBytes bytes);
    Result<void> handle_session(UntrustedBytes bytes);
    Result<std::unique_ptr<DataLink>> open_data_link() const;
    [[nodiscard]] Result<void> of_data_port(Result<void> result) const;
    Result<void> handle_stream(const Expected& expected, UntrustedBytes bytes);
    Result<void> handle_closed_chunk(UntrustedBytes bytes);
    Result<void> handle_stored(const Expected& expected, UntrustedBytes bytes, Clock::time_point now);
    void ask_at(Clock::time_point time);
    [[nodiscard]] bool waits_for_answer() const;

    net::HostAddress host_;
    net::RelayAddress address_;
    SessionDescription session_;
    std::uint64_t creation_time_;
    std::uint64_t chunk_begun_ = 0;  // s since the epoch
    net::StreamSocket control_;
    std::unique_ptr<DataLink> data_;
    Step step_ = Step::kVersion;
    std::uint32_t minor_ = wire::kProtocolMinor;
    bool allows_clear_ = false;
    std::uint64_t chunk_ = 0;   // that streams are in
    bool has_rotated_ = false;  // and not only been cleared
    std::string closed_chunk_{};
    Clock::time_point give_up_at_;  // on the handshake

    net::SendQueue output_;
    wire::Bytes input_;
    std::deque<Expected> expected_;
    std::uint64_t answers_ = 0;  // but those of DATA_PENDING that say no

    UnstoredPackets* unstored_;
    std::map<consumer::StreamId, SentStream> streams_;
    std::deque<SentStream*> turns_;  // whose packet is next: one turn for each packet that is not sent
    bool is_metadata_announced_ = false;
    std::optional<std::uint64_t> metadata_handle_;
    std::string unsent_metadata_;
    std::vector<std::size_t> sent_units_;  // bytes of each unit that the chunk's file has
    std::uint64_t metadata_version_ = 0;   // grows with each text that replaces another
    std::uint64_t packets_sent_ = 0;

    std::uint64_t unconfirmed_bytes_ = 0;  // since we last asked
    std::uint64_t unconfirmed_packets_ = 0;
    std::optional<Clock::time_point> ask_at_;
};

}  // namespace leat::output
