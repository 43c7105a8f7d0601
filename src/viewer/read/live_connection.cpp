#include "viewer/read/live_connection.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace leat::viewer {
namespace {

using namespace std::chrono_literals;
using wire::LiveCommand;

// How often a relay without WAIT is asked for news.
constexpr auto kPollPeriod = 50ms;
// Requests in one write. At worst as many replies fill the socket's buffers before we read them.
constexpr std::size_t kMaxPipelined = 256;
constexpr std::uint32_t kOldestMinor = 3;
constexpr std::uint32_t kNewsSize = 1U << 20;  // bytes of packets in one answer

template <class T>
Result<T> named(LiveCommand command, Result<T> result) {
    if (!result) return wrap(wire::name_of(command), std::move(result).error());
    return result;
}

}  // namespace

template <class Reply>
Result<Reply> LiveConnection::receive() {
    std::array<std::byte, wire::kSizeOf<Reply>> bytes{};
    LEAT_TRY(socket_.receive(bytes));
    return wire::parse<Reply>(bytes);
}

template <class Reply, class Request>
Result<Reply> LiveConnection::ask(LiveCommand command, const Request& request) {
    wire::Bytes bytes;
    wire::append_request(bytes, command, request);
    auto sent = socket_.send(bytes);
    if (!sent) return wrap(wire::name_of(command), std::move(sent).error());
    return named(command, receive<Reply>());
}

Result<LiveConnection> LiveConnection::open(net::WaitingSocket socket) {
    LiveConnection connection(std::move(socket));
    LEAT_TRY(connection.agree_on_version());
    return connection;
}

Result<void> LiveConnection::agree_on_version() {
    const wire::Connect wish{.viewer_session_id = wire::kAskCapabilities | wire::kCanWait | wire::kCanGetNews};
    const wire::Connect reply = LEAT_TRY(ask<wire::Connect>(LiveCommand::kConnect, wish));
    if (reply.major != wire::kProtocolMajor || reply.minor < kOldestMinor)
        return unsupported("it speaks live protocol {}.{}, {}.4 or later is needed: upgrade the relay", reply.major,
                           reply.minor, wire::kProtocolMajor);
    // The other bits of the word tell Leat's relays from others.
    const bool is_ours = (reply.type & ~wire::kCapabilityMask) == wire::kHaveCapabilities;
    can_wait_ = is_ours && (reply.type & wire::kCanWait) != 0;
    can_get_news_ = is_ours && (reply.type & wire::kCanGetNews) != 0;
    return {};
}

Result<std::vector<wire::ListedSession>> LiveConnection::list_sessions() {
    wire::Bytes request;
    wire::append_request(request, LiveCommand::kListSessions);
    LEAT_TRY(named(LiveCommand::kListSessions, socket_.send(request)));
    const auto count = LEAT_TRY(named(LiveCommand::kListSessions, receive<wire::WordReply>())).value;
    if (count > kMaxSessions) return corrupt("LIST_SESSIONS: {} sessions are more than a relay has", count);
    std::vector<wire::ListedSession> sessions;
    for (std::uint32_t i = 0; i < count; ++i)
        sessions.push_back(LEAT_TRY(named(LiveCommand::kListSessions, receive<wire::ListedSession>())));
    return sessions;
}

Result<void> LiveConnection::create_viewer_session() {
    wire::Bytes request;
    wire::append_request(request, LiveCommand::kCreateSession);
    LEAT_TRY(named(LiveCommand::kCreateSession, socket_.send(request)));
    const auto status = LEAT_TRY(named(LiveCommand::kCreateSession, receive<wire::CreateViewerReply>())).status;
    if (status != wire::CreateViewerStatus::kOk)
        return refused("CREATE_SESSION: the relay refused it (status {})", status);
    return {};
}

Result<LiveConnection::Streams<wire::AttachStatus>> LiveConnection::attach(std::uint64_t session_id, wire::Seek seek) {
    const wire::AttachSession request{.session_id = session_id, .seek = seek};
    wire::Bytes bytes;
    wire::append_request(bytes, LiveCommand::kAttachSession, request);
    LEAT_TRY(named(LiveCommand::kAttachSession, socket_.send(bytes)));
    return named(LiveCommand::kAttachSession, receive_streams<wire::AttachStatus>());
}

Result<LiveConnection::Streams<wire::NewStreamsStatus>> LiveConnection::new_streams(std::uint64_t session_id) {
    wire::Bytes bytes;
    wire::append_request(bytes, LiveCommand::kGetNewStreams, wire::LiveIdRequest{session_id});
    LEAT_TRY(named(LiveCommand::kGetNewStreams, socket_.send(bytes)));
    return named(LiveCommand::kGetNewStreams, receive_streams<wire::NewStreamsStatus>());
}

template <class Status>
Result<LiveConnection::Streams<Status>> LiveConnection::receive_streams() {
    const auto head = LEAT_TRY(receive<wire::StreamsReply<Status>>());
    Streams<Status> answer;
    answer.status = head.status;
    if (head.status != Status::kOk) return answer;
    if (head.streams > kMaxStreams) return corrupt("{} streams are more than a relay has", head.streams);
    for (std::uint32_t i = 0; i < head.streams; ++i) {
        auto stream = receive<wire::StreamDescriptor>();
        if (!stream) return tl::unexpected(std::move(stream).error());
        answer.streams.push_back(*std::move(stream));
    }
    return answer;
}

Result<LiveConnection::FetchedMetadata> LiveConnection::metadata(std::uint64_t stream_id, std::uint64_t limit) {
    const auto reply = LEAT_TRY(ask<wire::MetadataReply>(LiveCommand::kGetMetadata, wire::LiveIdRequest{stream_id}));
    FetchedMetadata metadata;
    metadata.status = reply.status;
    if (metadata.status != wire::MetadataStatus::kOk) return metadata;
    if (reply.length > limit)
        return refused("GET_METADATA: {} bytes of new metadata are too many: at most {} more are read", reply.length,
                       limit);
    metadata.bytes.resize(reply.length);
    auto received = socket_.receive(metadata.bytes);
    if (!received) return wrap("GET_METADATA", std::move(received).error());
    return metadata;
}

Result<std::vector<wire::NextIndexReply>> LiveConnection::next_indexes(std::span<const std::uint64_t> stream_ids) {
    std::vector<wire::NextIndexReply> replies;
    replies.reserve(stream_ids.size());
    while (!stream_ids.empty()) {
        const auto batch = stream_ids.first(std::min(stream_ids.size(), kMaxPipelined));
        stream_ids = stream_ids.subspan(batch.size());
        wire::Bytes bytes;
        for (const std::uint64_t id : batch)
            wire::append_request(bytes, LiveCommand::kGetNextIndex, wire::LiveIdRequest{id});
        auto sent = named(LiveCommand::kGetNextIndex, socket_.send(bytes));
        if (!sent) return tl::unexpected(std::move(sent).error());
        for (std::size_t i = 0; i < batch.size(); ++i) {
            auto reply = named(LiveCommand::kGetNextIndex, receive<wire::NextIndexReply>());
            if (!reply) return tl::unexpected(std::move(reply).error());
            replies.push_back(*reply);
        }
    }
    return replies;
}

Result<LiveConnection::FetchedPacket> LiveConnection::packet(std::uint64_t stream_id, std::uint64_t offset,
                                                             std::span<std::byte> bytes) {
    const wire::GetPacket request{stream_id, offset, static_cast<std::uint32_t>(bytes.size())};
    const auto reply = LEAT_TRY(ask<wire::PacketReply>(LiveCommand::kGetPacket, request));
    FetchedPacket packet{reply.status, reply.flags, 0};
    if (packet.status != wire::PacketStatus::kOk) return packet;
    if (reply.length == 0 || reply.length > bytes.size())
        return corrupt("GET_PACKET: {} bytes came of {} that were asked for", reply.length, bytes.size());
    packet.length = reply.length;
    LEAT_TRY(named(LiveCommand::kGetPacket, socket_.receive(bytes.first(reply.length))));
    return packet;
}

Result<void> LiveConnection::detach(std::uint64_t session_id) {
    // The status does not matter: the session is left in any case.
    LEAT_TRY(ask<wire::DetachReply>(LiveCommand::kDetachSession, wire::LiveIdRequest{session_id}));
    return {};
}

Result<void> LiveConnection::request_news() {
    wire::Bytes bytes;
    wire::append_request(bytes, LiveCommand::kGetNews, wire::GetNews{kNewsSize});
    LEAT_TRY(named(LiveCommand::kGetNews, socket_.send(bytes)));
    has_requested_news_ = true;
    return {};
}

Result<LiveConnection::News> LiveConnection::receive_news() {
    has_requested_news_ = false;
    return named(LiveCommand::kGetNews, receive_news_reply());
}

Result<LiveConnection::News> LiveConnection::receive_news_reply() {
    const auto reply = LEAT_TRY(receive<wire::NewsReply>());
    if (reply.status != wire::NewsStatus::kOk) return refused("the relay refused it (status {})", reply.status);
    if (reply.entries > wire::kMaxNewsEntries) return corrupt("{} entries are more than it may have", reply.entries);
    News news{.flags = reply.flags};
    std::uint64_t bytes = 0;
    for (std::uint32_t i = 0; i < reply.entries; ++i) {
        if (bytes >= kNewsSize) return corrupt("more bytes came than were asked for");
        auto entry = receive_news_entry();
        if (!entry) return tl::unexpected(std::move(entry).error());
        bytes += entry->packet.size();
        news.entries.push_back(*std::move(entry));
    }
    return news;
}

Result<LiveConnection::News::Entry> LiveConnection::receive_news_entry() {
    const auto head = LEAT_TRY(receive<wire::NewsEntry>());
    const bool is_packet = head.index.status == wire::IndexStatus::kOk;
    if (head.length != 0 &&
        (!is_packet || head.length > wire::kMaxNewsPacket || head.length != head.index.entry.packet_size / 8))
        return corrupt("{} bytes come with a packet of {} bits", head.length, head.index.entry.packet_size);
    News::Entry entry{head.stream_id, head.index, wire::Bytes(head.length)};
    auto received = socket_.receive(entry.packet);
    if (!received) return tl::unexpected(std::move(received).error());
    return entry;
}

Result<void> LiveConnection::wait() {
    if (!can_wait_) {
        socket_.wait(kPollPeriod);
        return {};
    }
    const auto reply = LEAT_TRY(ask<wire::WaitReply>(LiveCommand::kWait, wire::Wait{seen_change_}));
    if (reply.status != wire::WaitStatus::kOk) return refused("WAIT: the relay refused it (status {})", reply.status);
    seen_change_ = reply.change;
    return {};
}

}  // namespace leat::viewer
