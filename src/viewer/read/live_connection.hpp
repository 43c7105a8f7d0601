#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "net/waiting_socket.hpp"
#include "wire/live/live_messages.hpp"

namespace leat::viewer {

// Answers that a relay gives to us may not be larger.
inline constexpr std::uint32_t kMaxSessions = 65536;
inline constexpr std::uint32_t kMaxStreams = 65536;

// A viewer's connection to a relay: LTTng's live protocol ([live-protocol]), command by command. What the relay sends
// is checked before a byte is allocated for it. Errors name the command; after one, the connection is of no more use.
class LiveConnection {
  public:
    template <class Status>
    struct Streams {
        Status status{};
        std::vector<wire::StreamDescriptor> streams{};
    };
    struct FetchedMetadata {
        wire::MetadataStatus status{};
        wire::Bytes bytes{};
    };
    struct FetchedPacket {
        wire::PacketStatus status{};
        std::uint32_t flags = 0;
        std::uint32_t length = 0;
    };

    struct News {
        struct Entry {
            std::uint64_t stream_id = 0;
            wire::NextIndexReply index{};
            wire::Bytes packet{};  // empty if it is to be fetched
        };
        std::uint32_t flags = 0;
        std::vector<Entry> entries{};
    };

    // Connects and agrees on the version.
    static Result<LiveConnection> open(net::WaitingSocket socket);

    Result<std::vector<wire::ListedSession>> list_sessions();
    // Once, before anything is attached.
    Result<void> create_viewer_session();
    Result<Streams<wire::AttachStatus>> attach(std::uint64_t session_id, wire::Seek seek);
    Result<Streams<wire::NewStreamsStatus>> new_streams(std::uint64_t session_id);
    // What is new, at most `limit` bytes.
    Result<FetchedMetadata> metadata(std::uint64_t stream_id, std::uint64_t limit);
    // For all these streams at once, in their order.
    Result<std::vector<wire::NextIndexReply>> next_indexes(std::span<const std::uint64_t> stream_ids);
    // Fills the begin of `bytes`, which say how much is asked for.
    Result<FetchedPacket> packet(std::uint64_t stream_id, std::uint64_t offset, std::span<std::byte> bytes);
    Result<void> detach(std::uint64_t session_id);

    // If the relay can: asks for what is new in all streams of the sessions that are attached, and takes the answer,
    // which comes when there is something. No other command in between.
    [[nodiscard]] bool can_get_news() const { return can_get_news_; }
    Result<void> request_news();
    Result<News> receive_news();
    [[nodiscard]] bool has_requested_news() const { return has_requested_news_; }

    // Until something may be new in the sessions that are attached, or we are told to stop.
    Result<void> wait();
    [[nodiscard]] bool can_wait() const { return can_wait_; }
    [[nodiscard]] const net::WaitingSocket& socket() const { return socket_; }

  private:
    explicit LiveConnection(net::WaitingSocket socket) : socket_(std::move(socket)) {}

    Result<void> agree_on_version();
    template <class Reply>
    Result<Reply> receive();
    template <class Reply, class Request>
    Result<Reply> ask(wire::LiveCommand command, const Request& request);
    template <class Status>
    Result<Streams<Status>> receive_streams();
    Result<News> receive_news_reply();
    Result<News::Entry> receive_news_entry();

    net::WaitingSocket socket_;
    bool can_wait_ = false;
    bool can_get_news_ = false;
    bool has_requested_news_ = false;
    std::uint64_t seen_change_ = 0;
};

}  // namespace leat::viewer
