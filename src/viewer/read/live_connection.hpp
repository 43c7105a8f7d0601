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

// A reply that lists more is refused.
inline constexpr std::uint32_t kMaxSessions = 65536;
inline constexpr std::uint32_t kMaxStreams = 65536;

// A viewer's connection to a relay: one method for each command of LTTng's live protocol ([live-protocol]). A size that
// the relay sends is checked before memory is allocated for it. Errors name the command. After an error the connection
// cannot be used any more.
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
            wire::Bytes packet{};  // empty: packet() has to fetch it
        };
        std::uint32_t flags = 0;
        std::vector<Entry> entries{};
    };

    // Sends CONNECT and agrees on the version. The socket is connected.
    static Result<LiveConnection> open(net::WaitingSocket socket);

    Result<std::vector<wire::ListedSession>> list_sessions();
    // To be called once, before attach().
    Result<void> create_viewer_session();
    Result<Streams<wire::AttachStatus>> attach(std::uint64_t session_id, wire::Seek seek);
    Result<Streams<wire::NewStreamsStatus>> new_streams(std::uint64_t session_id);
    // Metadata that is new. More than `limit` bytes are an error.
    Result<FetchedMetadata> metadata(std::uint64_t stream_id, std::uint64_t limit);
    // Asks for all these streams at once, and returns the replies in the same order.
    Result<std::vector<wire::NextIndexReply>> next_indexes(std::span<const std::uint64_t> stream_ids);
    // Asks for bytes.size() bytes. The relay may send fewer: `length` says how many of `bytes` are filled.
    Result<FetchedPacket> packet(std::uint64_t stream_id, std::uint64_t offset, std::span<std::byte> bytes);
    Result<void> detach(std::uint64_t session_id);

    // Leat's relays only: asks for what is new in all streams of the attached sessions. The reply comes as soon as
    // there is something. No other command may be sent between the request and its reply.
    [[nodiscard]] bool can_get_news() const { return can_get_news_; }
    Result<void> request_news();
    Result<News> receive_news();
    [[nodiscard]] bool has_requested_news() const { return has_requested_news_; }

    // Waits until something may be new in the attached sessions, or until we are told to stop.
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
