// A relay that a viewer follows, step by step: it gets traces, and shows them as any relay may, or lies about them. The
// viewer's side is the real one: connection, session, streams, merge.
//
//     model       publishes packets, streams, metadata, ends          lets the viewer go on, cuts its connection
//     relay       (a thread) answers the viewer's requests            honest | liar: wrong, cut, twice, in pieces
//     viewer      LiveConnection -> RelaySession -> LiveMerge         told: events by stream
//
// Invariants: the viewer comes to an end. It asks a bounded number of times for each step. What an honest relay has,
// over any number of connections, is told once, and in order. A liar tells the truth in the end, on a connection of its
// own: then all is told once, in any order, or a warning, an error or a loss has said that something is missing.
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/unique_fd.hpp"
#include "support/model.hpp"
#include "viewer/merge/live_merge.hpp"
#include "viewer/read/relay_session.hpp"
#include "wire/live/live_messages.hpp"

namespace leat::test {

// What the producers have made, and what of it each stream has told.
struct ViewedTraces {
    static constexpr std::size_t kTraces = 2;
    static constexpr std::size_t kMaxStreams = 6;

    struct Packet {
        wire::Bytes bytes{};
        std::uint64_t begin = 0;
        std::uint64_t end = 0;
        std::size_t metadata_parts = 0;  // so many must be read before it
        std::uint32_t events = 0;        // that end with it
    };
    struct Stream {
        std::uint64_t id = 0;  // of the relay
        std::size_t trace = 0;
        std::vector<Packet> packets{};
        std::uint32_t events = 0;
        std::uint64_t discarded = 0;  // events, never before the first packet
        bool has_ended = false;
    };

    ViewedTraces();
    void declare(std::size_t trace);
    void add_stream(std::size_t trace);
    void add_packet(Stream& stream, std::uint64_t event_count, std::uint64_t padding, std::uint64_t discarded);

    std::array<std::vector<std::string>, kTraces> metadata{};
    std::vector<Stream> streams{};
    std::uint64_t now = 1'000;
    bool has_ended = false;
};

inline ViewedTraces::ViewedTraces() {
    for (std::size_t trace = 0; trace < kTraces; ++trace) {
        metadata[trace].push_back(fmt::format(
            "/* CTF 1.8 */ trace {{ major = 1; minor = 8; byte_order = le;"
            "  uuid = \"00112233-4455-6677-8899-aabbccddee0{}\";"
            "  packet.header := struct {{ integer {{ size = 8; }} stream_instance_id; }}; }};"
            "clock {{ name = m; freq = 1000000000; }};"
            "typealias integer {{ size = 64; map = clock.m.value; }} := ts; typealias integer {{ size = 64; }} := u64;"
            "stream {{ packet.context := struct {{ u64 packet_size; u64 content_size; ts timestamp_begin;"
            "  ts timestamp_end; u64 packet_seq_num; u64 events_discarded; }};"
            "  event.header := struct {{ integer {{ size = 8; }} id; ts timestamp; }}; }};",
            trace));
        declare(trace);
    }
}

inline void ViewedTraces::declare(std::size_t trace) {
    const std::size_t id = metadata[trace].size() - 1;
    metadata[trace].push_back(
        fmt::format("event {{ id = {}; name = e{}; fields := struct {{ integer {{ size = 32; }} n; }}; }};", id, id));
}

inline void ViewedTraces::add_stream(std::size_t trace) {
    streams.push_back({.id = 100 + streams.size(), .trace = trace});
}

inline void ViewedTraces::add_packet(Stream& stream, std::uint64_t event_count, std::uint64_t padding,
                                     std::uint64_t discarded) {
    if (!stream.packets.empty()) stream.discarded += discarded;
    const auto append = [](wire::Bytes& bytes, auto number) {
        for (std::size_t i = 0; i < sizeof number; ++i) bytes.push_back(static_cast<std::byte>(number >> (8 * i)));
    };
    constexpr std::uint64_t kHead = 1 + 6 * 8;
    constexpr std::uint64_t kEvent = 1 + 8 + 4;
    Packet packet{.begin = ++now, .metadata_parts = metadata[stream.trace].size()};
    wire::Bytes events;
    for (std::uint64_t i = 0; i < event_count; ++i) {
        append(events, static_cast<std::uint8_t>((now + i) % (packet.metadata_parts - 1)));
        append(events, std::uint64_t{++now});
        append(events, std::uint32_t{stream.events++});
    }
    packet.end = ++now;
    packet.events = stream.events;
    const std::uint64_t content = kHead + event_count * kEvent;
    append(packet.bytes, static_cast<std::uint8_t>(stream.id));
    for (const std::uint64_t number : {(content + padding) * 8, content * 8, packet.begin, packet.end,
                                       std::uint64_t{stream.packets.size()}, stream.discarded})
        append(packet.bytes, number);
    packet.bytes.insert(packet.bytes.end(), events.begin(), events.end());
    packet.bytes.resize(content + padding);
    stream.packets.push_back(std::move(packet));
}

// One connection of the relay. Its thread draws, and looks at the traces, only while the model waits for it.
class ViewedConnection {
  public:
    struct Manner {
        bool is_honest = true;
        bool is_disorderly = false;  // packets come in any order, and again
        std::uint32_t capabilities = 0;
    };

    ViewedConnection(const ViewedTraces& traces, Manner manner, const Choose& choose, UniqueFd socket)
        : traces_(&traces), manner_(manner), choose_(&choose), socket_(std::move(socket)), thread_([this] {
              serve();
          }) {}
    ~ViewedConnection() {
        cut();
        thread_.join();
    }
    ViewedConnection(const ViewedConnection&) = delete;
    ViewedConnection& operator=(const ViewedConnection&) = delete;

    void cut() const { ::shutdown(socket_.get(), SHUT_RDWR); }
    // Until it has an answer to all that was asked: a viewer asks for news, and goes on before they come. Only then may
    // the model go on.
    void synchronize() const;
    [[nodiscard]] std::uint64_t requests() const { return requests_; }
    // Whether it said what nobody can see to be wrong: bytes of events were changed, or a stream is of another trace.
    [[nodiscard]] bool has_forged() const { return has_forged_; }

  private:
    struct Shown {
        std::size_t next_packet = 0;
        bool has_ended = false;
    };
    void serve();
    void answer_all();
    [[nodiscard]] bool receive(std::span<std::byte> bytes) const;
    void send(UntrustedBytes bytes) const;
    [[nodiscard]] std::vector<std::size_t> pieces_of(std::size_t size);
    void change(wire::Bytes& bytes);

    [[nodiscard]] wire::Bytes answer(wire::LiveCommand command, UntrustedBytes payload);
    template <class Status>
    [[nodiscard]] wire::Bytes streams(Status ok, Status none, bool is_first);
    [[nodiscard]] wire::NextIndexReply next_index(std::size_t stream);
    [[nodiscard]] wire::Bytes packet(const wire::GetPacket& request);
    [[nodiscard]] wire::Bytes metadata(std::uint64_t id);
    [[nodiscard]] wire::Bytes news();
    [[nodiscard]] std::uint32_t flags_of(const ViewedTraces::Stream& stream);
    [[nodiscard]] bool all_have_ended() const;
    [[nodiscard]] bool is_over(std::size_t trace) const;
    [[nodiscard]] wire::StreamDescriptor told_metadata(std::size_t trace) const;
    [[nodiscard]] std::uint64_t told_trace(std::size_t trace) const;
    [[nodiscard]] std::optional<std::size_t> stream_of(std::uint64_t id) const;
    // Places of a packet in its stream's file: all its packets, one behind the other.
    [[nodiscard]] std::uint64_t offset_of(std::size_t stream, std::size_t packet) const;

    std::uint64_t choose(std::uint64_t bound) { return (*choose_)(bound); }
    // Not if there is nothing to draw from any more.
    bool is_one_in(std::uint64_t count) { return choose(count) == count - 1; }
    bool lies(std::uint64_t one_in) {
        const bool is_lie = !manner_.is_honest && is_one_in(one_in);
        has_lied_ = has_lied_ || is_lie;
        return is_lie;
    }

    // ms; for the viewer of a liar, who may wait for bytes that will not come, or does not want those that come.
    static constexpr int kPatience = 20;
    static constexpr std::uint64_t kMetadataId = 10;  // and the trace's number, as it was told

    const ViewedTraces* traces_;
    Manner manner_;
    const Choose* choose_;
    UniqueFd socket_;
    std::map<std::size_t, Shown> shown_{};                         // by stream
    std::map<std::uint64_t, std::size_t> metadata_shown_{};        // parts, by the trace's number, as it was told
    std::array<std::size_t, ViewedTraces::kTraces> times_over_{};  // all streams that were told of had ended
    bool has_lied_ = false;
    mutable std::mutex turn_;
    std::atomic<std::uint64_t> requests_ = 0;
    std::atomic<bool> has_forged_ = false;
    std::atomic<bool> has_ended_ = false;
    std::thread thread_;
};

inline void ViewedConnection::serve() {
    answer_all();
    has_ended_ = true;
}

inline void ViewedConnection::answer_all() {
    std::array<std::byte, wire::kSizeOf<wire::LiveHeader>> head{};
    for (;;) {
        pollfd waiting{socket_.get(), POLLIN, 0};
        if (::poll(&waiting, 1, has_lied_ ? kPatience : -1) == 0) return cut();
        std::unique_lock lock(turn_);
        if (!receive(head)) return;
        const auto header = wire::parse<wire::LiveHeader>(head);
        std::array<std::byte, 64> payload{};
        if (!header || header->data_size > payload.size()) return cut();
        const auto used = std::span(payload).first(header->data_size);
        if (!receive(used)) return;
        ++requests_;
        wire::Bytes bytes = answer(header->command, used);
        if (lies(20)) change(bytes);
        const std::vector<std::size_t> pieces = pieces_of(bytes.size());
        lock.unlock();
        UntrustedBytes rest(bytes);
        for (const std::size_t piece : pieces) {
            send(rest.first(piece));
            rest = rest.subspan(piece);
        }
    }
}

inline void ViewedConnection::synchronize() const {
    while (!has_ended_) {
        {
            const std::scoped_lock lock(turn_);
            int unread = 0;
            if (::ioctl(socket_.get(), FIONREAD, &unread) != 0 || unread == 0) return;
        }
        std::this_thread::yield();
    }
}

inline bool ViewedConnection::receive(std::span<std::byte> bytes) const {
    while (!bytes.empty()) {
        const ssize_t count = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
        if (count <= 0) return false;
        bytes = bytes.subspan(static_cast<std::size_t>(count));
    }
    return true;
}

// What is too much for the viewer of a liar may never be read.
inline void ViewedConnection::send(UntrustedBytes bytes) const {
    while (!bytes.empty()) {
        pollfd room{socket_.get(), POLLOUT, 0};
        if (has_lied_ && ::poll(&room, 1, kPatience) == 0) return cut();
        const int flags = MSG_NOSIGNAL | (has_lied_ ? MSG_DONTWAIT : 0);
        const ssize_t count = ::send(socket_.get(), bytes.data(), bytes.size(), flags);
        if (count <= 0) return;
        bytes = bytes.subspan(static_cast<std::size_t>(count));
    }
}

// In one piece or several, as the network likes.
inline std::vector<std::size_t> ViewedConnection::pieces_of(std::size_t size) {
    std::vector<std::size_t> pieces;
    while (size != 0) {
        pieces.push_back(is_one_in(4) ? 1 + choose(size) : size);
        size -= pieces.back();
    }
    return pieces;
}

inline void ViewedConnection::change(wire::Bytes& bytes) {
    if (bytes.empty()) return;
    const std::uint64_t how = choose(5);
    has_forged_ = has_forged_ || how != 0;
    switch (how) {
        case 0:
            bytes.resize(choose(bytes.size()));
            break;
        case 1: {  // twice
            const wire::Bytes copy = bytes;
            bytes.insert(bytes.end(), copy.begin(), copy.end());
            break;
        }
        case 2:  // a field more
            bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(choose(bytes.size())), 4, std::byte{0});
            break;
        case 3:  // a field less
            if (bytes.size() > 4) bytes.erase(bytes.begin(), bytes.begin() + 4);
            break;
        default:
            bytes[choose(bytes.size())] = static_cast<std::byte>(choose(256));
    }
}

inline wire::Bytes ViewedConnection::answer(wire::LiveCommand command, UntrustedBytes payload) {
    using wire::LiveCommand;
    const auto id = [&] { return wire::parse<wire::LiveIdRequest>(payload).value_or(wire::LiveIdRequest{}).id; };
    switch (command) {
        case LiveCommand::kConnect:
            return wire::encode(
                wire::Connect{.minor = static_cast<std::uint32_t>(4 + choose(10)),
                              .type = manner_.capabilities == 0 ? 0 : wire::kHaveCapabilities | manner_.capabilities});
        case LiveCommand::kListSessions: {
            wire::Bytes bytes = wire::encode(wire::WordReply{1});
            wire::append(bytes, wire::ListedSession{.id = 1, .live_timer_us = 1, .hostname = "h", .session_name = "s"});
            return bytes;
        }
        case LiveCommand::kCreateSession:
            return wire::encode(wire::CreateViewerReply{wire::CreateViewerStatus::kOk});
        case LiveCommand::kAttachSession:
            return streams(wire::AttachStatus::kOk, wire::AttachStatus::kOk, true);
        case LiveCommand::kGetNewStreams:
            if (traces_->has_ended && all_have_ended())
                return wire::encode(wire::NewStreamsReply{wire::NewStreamsStatus::kHangUp, 0});
            return streams(wire::NewStreamsStatus::kOk, wire::NewStreamsStatus::kNoNew, false);
        case LiveCommand::kGetNextIndex:
            if (const auto stream = stream_of(id())) return wire::encode(next_index(*stream));
            return wire::encode(wire::NextIndexReply{.status = wire::IndexStatus::kError});
        case LiveCommand::kGetPacket:
            return packet(wire::parse<wire::GetPacket>(payload).value_or(wire::GetPacket{}));
        case LiveCommand::kGetMetadata:
            return metadata(id());
        case LiveCommand::kDetachSession:
            return wire::encode(wire::DetachReply{wire::DetachStatus::kOk});
        case LiveCommand::kWait:
            return wire::encode(wire::WaitReply{wire::WaitStatus::kOk, requests_});
        case LiveCommand::kGetNews:
            return news();
    }
    return wire::encode(wire::WordReply{3});
}

// Those that the viewer does not know, or some of them; a liar names some again, or things that are none. Where a relay
// of ours has told that all streams of a trace have ended, those that come later are another trace.
template <class Status>
wire::Bytes ViewedConnection::streams(Status ok, Status none, bool is_first) {
    std::vector<wire::StreamDescriptor> told;
    for (std::size_t trace = 0; is_first && trace < ViewedTraces::kTraces; ++trace)
        told.push_back(told_metadata(trace));
    for (std::size_t stream = 0; stream < traces_->streams.size(); ++stream) {
        if (shown_.contains(stream) && !lies(4)) continue;
        if (!shown_.contains(stream) && is_one_in(3)) continue;
        const ViewedTraces::Stream& made = traces_->streams[stream];
        if (!shown_.contains(stream) && (manner_.capabilities & wire::kCanGetNews) != 0 && is_over(made.trace)) {
            ++times_over_[made.trace];
            told.push_back(told_metadata(made.trace));
        }
        shown_.try_emplace(stream);
        const bool is_elsewhere = lies(20);
        const std::uint64_t trace = is_elsewhere ? choose(3) : told_trace(made.trace);
        has_forged_ = has_forged_ || is_elsewhere;
        told.push_back({.id = made.id, .trace_id = trace, .path = "p", .channel_name = fmt::format("c{}", stream)});
    }
    if (told.empty() && is_one_in(2)) return wire::encode(wire::StreamsReply<Status>{none, 0});
    if (lies(30)) return wire::encode(wire::StreamsReply<Status>{static_cast<Status>(choose(8)), 0});
    wire::Bytes bytes = wire::encode(wire::StreamsReply<Status>{ok, static_cast<std::uint32_t>(told.size())});
    for (const wire::StreamDescriptor& stream : told) wire::append(bytes, stream);
    return bytes;
}

inline bool ViewedConnection::all_have_ended() const {
    return shown_.size() == traces_->streams.size() &&
           std::ranges::all_of(shown_, [](const auto& entry) { return entry.second.has_ended; });
}

inline bool ViewedConnection::is_over(std::size_t trace) const {
    const auto is_of_it = [&](const auto& entry) { return traces_->streams[entry.first].trace == trace; };
    return std::ranges::any_of(shown_, is_of_it) &&
           std::ranges::all_of(shown_, [&](const auto& entry) { return !is_of_it(entry) || entry.second.has_ended; });
}

inline std::uint64_t ViewedConnection::told_trace(std::size_t trace) const {
    return trace + times_over_[trace] * ViewedTraces::kTraces;
}

inline wire::StreamDescriptor ViewedConnection::told_metadata(std::size_t trace) const {
    const std::uint64_t told = told_trace(trace);
    return {.id = kMetadataId + told, .trace_id = told, .is_metadata = 1, .channel_name = "metadata"};
}

inline std::optional<std::size_t> ViewedConnection::stream_of(std::uint64_t id) const {
    if (id < 100 || id - 100 >= traces_->streams.size()) return std::nullopt;
    return id - 100;
}

inline std::uint64_t ViewedConnection::offset_of(std::size_t stream, std::size_t packet) const {
    std::uint64_t offset = 0;
    for (std::size_t i = 0; i < packet; ++i) offset += traces_->streams[stream].packets[i].bytes.size();
    return offset;
}

inline std::uint32_t ViewedConnection::flags_of(const ViewedTraces::Stream& stream) {
    std::uint32_t flags = 0;
    if (metadata_shown_[told_trace(stream.trace)] != traces_->metadata[stream.trace].size())
        flags |= wire::kNewMetadata;
    if (shown_.size() != traces_->streams.size()) flags |= wire::kNewStreams;
    return lies(20) ? static_cast<std::uint32_t>(choose(4)) : flags;
}

inline wire::NextIndexReply ViewedConnection::next_index(std::size_t number) {
    const ViewedTraces::Stream& stream = traces_->streams[number];
    Shown& shown = shown_[number];
    wire::NextIndexReply reply{.status = wire::IndexStatus::kRetry, .flags = flags_of(stream)};
    if (shown.next_packet < stream.packets.size() && !is_one_in(6)) {
        const bool is_other = lies(30) || (manner_.is_disorderly && is_one_in(4));
        if (is_other) shown.next_packet = choose(stream.packets.size());  // one again, or one too early
        const ViewedTraces::Packet& packet = stream.packets[shown.next_packet];
        reply.status = wire::IndexStatus::kOk;
        reply.entry = {.offset = offset_of(number, shown.next_packet),
                       .packet_size = packet.bytes.size() * 8,
                       .content_size = packet.bytes.size() * 8,
                       .timestamp_begin = packet.begin,
                       .timestamp_end = packet.end};
        ++shown.next_packet;
    } else if (shown.next_packet == stream.packets.size() && stream.has_ended) {
        reply.status = is_one_in(2) ? wire::IndexStatus::kHangUp : wire::IndexStatus::kEof;
        shown.has_ended = true;
    } else if (shown.next_packet == stream.packets.size() && is_one_in(2)) {
        reply.status = wire::IndexStatus::kInactive;
        reply.entry.timestamp_end = traces_->now;
    }
    if (!lies(25)) return reply;
    switch (choose(4)) {
        case 0:
            reply.status = static_cast<wire::IndexStatus>(choose(9));
            break;
        case 1:
            reply.entry.packet_size = choose(2) == 0 ? choose(4096) : choose(~std::uint64_t{0});
            break;
        case 2:
            reply.entry.offset = choose(4096);
            break;
        default:
            reply.entry.timestamp_end = choose(~std::uint64_t{0});
    }
    return reply;
}

// As many bytes as were asked for, or fewer.
inline wire::Bytes ViewedConnection::packet(const wire::GetPacket& request) {
    const auto stream = stream_of(request.stream_id);
    if (!stream || lies(30))
        return wire::encode(wire::PacketReply{static_cast<wire::PacketStatus>(2 + choose(4)), 0, 0});
    const ViewedTraces::Stream& made = traces_->streams[*stream];
    // Old relays refuse until everything else has been asked for. Those with news have what they told of.
    if ((manner_.capabilities & wire::kCanGetNews) == 0 && is_one_in(6)) {
        const std::uint32_t flags = flags_of(made);
        if (flags != 0) return wire::encode(wire::PacketReply{wire::PacketStatus::kError, 0, flags});
        return wire::encode(wire::PacketReply{wire::PacketStatus::kRetry, 0, 0});
    }
    std::uint64_t begin = 0;
    for (std::size_t number = 0; number < made.packets.size(); ++number) {
        const wire::Bytes& bytes = made.packets[number].bytes;
        if (request.offset >= begin && request.offset < begin + bytes.size()) {
            const auto rest = UntrustedBytes(bytes).subspan(request.offset - begin);
            std::size_t size = std::min<std::size_t>(request.length, rest.size());
            if (size != 0 && is_one_in(4)) size = 1 + choose(size);
            wire::Bytes reply = wire::encode(
                wire::PacketReply{wire::PacketStatus::kOk, static_cast<std::uint32_t>(size), flags_of(made)});
            reply.insert(reply.end(), rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(size));
            return reply;
        }
        begin += bytes.size();
    }
    return wire::encode(wire::PacketReply{wire::PacketStatus::kError, 0, 0});
}

// All that is new, or a part of it, which may end within a declaration. Also of a trace that is over.
inline wire::Bytes ViewedConnection::metadata(std::uint64_t id) {
    const std::size_t trace = (id - kMetadataId) % ViewedTraces::kTraces;
    if (id < kMetadataId || id > kMetadataId + told_trace(trace))
        return wire::encode(wire::MetadataReply{0, wire::MetadataStatus::kError});
    std::size_t& shown = metadata_shown_[id - kMetadataId];
    if (lies(30)) shown = choose(traces_->metadata[trace].size());
    if (shown == traces_->metadata[trace].size() || lies(30))
        return wire::encode(
            wire::MetadataReply{0, lies(20) ? wire::MetadataStatus::kError : wire::MetadataStatus::kNoNew});
    std::string text;
    do {
        text += traces_->metadata[trace][shown++];
    } while (shown < traces_->metadata[trace].size() && !is_one_in(3));
    if (lies(30)) text.resize(choose(text.size()));
    wire::Bytes bytes = wire::encode(wire::MetadataReply{text.size(), wire::MetadataStatus::kOk});
    const auto text_bytes = std::as_bytes(std::span(text));
    bytes.insert(bytes.end(), text_bytes.begin(), text_bytes.end());
    return bytes;
}

inline wire::Bytes ViewedConnection::news() {
    std::vector<std::pair<wire::NewsEntry, UntrustedBytes>> entries;
    std::uint32_t flags = shown_.size() != traces_->streams.size() || traces_->has_ended ? wire::kNewStreams : 0;
    for (auto& [number, shown] : shown_) {
        while (!shown.has_ended && !is_one_in(4)) {
            const ViewedTraces::Stream& stream = traces_->streams[number];
            const wire::NextIndexReply index = next_index(number);
            if (index.status == wire::IndexStatus::kRetry) break;
            wire::NewsEntry entry{.stream_id = stream.id, .index = index};
            UntrustedBytes bytes;
            if (index.status == wire::IndexStatus::kOk && shown.next_packet != 0) {
                const wire::Bytes& packet = stream.packets[shown.next_packet - 1].bytes;
                const bool is_right = index.entry.packet_size == packet.size() * 8;
                if (is_right && !is_one_in(4)) {
                    bytes = packet;
                    entry.length = static_cast<std::uint32_t>(packet.size());
                }
            }
            if (lies(40)) entry.stream_id = choose(200);
            if (lies(60)) entry.length = static_cast<std::uint32_t>(choose(300'000));
            entries.emplace_back(entry, bytes);
            if (index.status != wire::IndexStatus::kOk) break;
        }
    }
    if (lies(40)) flags = static_cast<std::uint32_t>(choose(4));
    wire::Bytes bytes = wire::encode(wire::NewsReply{
        lies(60) ? wire::NewsStatus::kError : wire::NewsStatus::kOk, flags,
        lies(60) ? static_cast<std::uint32_t>(choose(2000)) : static_cast<std::uint32_t>(entries.size())});
    for (const auto& [entry, packet] : entries) {
        wire::append(bytes, entry);
        bytes.insert(bytes.end(), packet.begin(), packet.end());
    }
    return bytes;
}

// Both sides of a connection. The members go in the other order: the viewer's first, the relay's thread last.
struct FollowingViewer {
    std::unique_ptr<ViewedConnection> relay;
    std::unique_ptr<viewer::LiveConnection> connection;
    std::unique_ptr<viewer::RelaySession> session;
};

class ViewedRelayModel {
  public:
    explicit ViewedRelayModel(Choose choose);

    void step();
    void finish();
    [[nodiscard]] const std::string& violation() const { return violation_; }
    // For tests that want to know whether anything happened.
    [[nodiscard]] std::uint64_t told() const { return told_count_; }
    [[nodiscard]] std::uint64_t connections() const { return connections_; }
    [[nodiscard]] std::uint64_t complaints() const { return complaints_; }

  private:
    void connect();
    void disconnect();
    // True: go on.
    bool look();
    bool follow();
    void complain(const std::string& why);
    void tell();
    void tell_event(const viewer::Message& message);
    void tell_loss(const viewer::Message& message);
    void check_told();
    void violate(std::string what) {
        if (violation_.empty()) violation_ = std::move(what);
    }

    static constexpr std::uint64_t kMostRequests = 2'000;  // of one look, which may take some dozens
    static constexpr std::uint64_t kMostLooks = 5'000;

    Choose choose_;
    ViewedTraces traces_;
    bool is_honest_ = true;            // at any time
    ViewedConnection::Manner manner_;  // of its next connection
    viewer::LiveMerge merge_;
    viewer::ShownPackets shown_;
    std::map<std::uint64_t, std::vector<std::uint32_t>> told_{};  // the numbers of events, by stream instance
    std::map<std::uint64_t, std::uint64_t> discarded_{};          // the same, as they were told
    std::optional<FollowingViewer> viewer_{};
    bool is_forged_ = false;
    std::uint64_t told_count_ = 0;
    std::uint64_t connections_ = 0;
    std::uint64_t complaints_ = 0;  // warnings, errors, and losses that were told
    std::string violation_{};
};

inline ViewedRelayModel::ViewedRelayModel(Choose choose) : choose_(std::move(choose)) {
    constexpr std::array kCapabilities{0U, wire::kCanWait, wire::kCanWait | wire::kCanGetNews, wire::kCanGetNews};
    const std::uint64_t kind = choose_(4);
    is_honest_ = kind == 0;
    manner_ = {.is_honest = kind <= 1,
               .is_disorderly = kind == 1,
               .capabilities = kCapabilities[choose_(kCapabilities.size())]};
    traces_.add_stream(0);
}

inline void ViewedRelayModel::step() {
    const auto any_stream = [&]() -> ViewedTraces::Stream& { return traces_.streams[choose_(traces_.streams.size())]; };
    switch (choose_(12)) {
        case 0:
        case 1:
        case 2:
        case 3: {
            ViewedTraces::Stream& stream = any_stream();
            const std::uint64_t padding = choose_(8) == 7 ? choose_(10'000) : 0;
            if (!stream.has_ended)
                traces_.add_packet(stream, choose_(8) == 7 ? 400 : choose_(5), padding,
                                   choose_(4) == 3 ? choose_(9) : 0);
            break;
        }
        case 4:
            if (traces_.streams.size() < ViewedTraces::kMaxStreams) traces_.add_stream(choose_(ViewedTraces::kTraces));
            break;
        case 5:
            if (const std::size_t trace = choose_(ViewedTraces::kTraces); traces_.metadata[trace].size() < 20)
                traces_.declare(trace);
            break;
        case 6:
            if (choose_(3) == 0) any_stream().has_ended = true;
            break;
        case 7:
            if (choose_(4) == 0) disconnect();
            break;
        default:
            if (!viewer_) connect();
            if (viewer_ && !look()) disconnect();
    }
}

inline void ViewedRelayModel::connect() {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) return violate("no sockets");
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
    net::WaitingSocket socket(UniqueFd(ends[0]), -1);
    ++connections_;
    viewer_.emplace();
    viewer_->relay = std::make_unique<ViewedConnection>(traces_, manner_, choose_, UniqueFd(ends[1]));
    auto connection = viewer::LiveConnection::open(std::move(socket));
    if (!connection) {
        complain(connection.error().message);
        return disconnect();
    }
    viewer_->connection = std::make_unique<viewer::LiveConnection>(*std::move(connection));
    const auto sessions = viewer_->connection->list_sessions();
    const auto created = sessions ? viewer_->connection->create_viewer_session() : tl::unexpected(sessions.error());
    if (!created || sessions->empty()) {
        complain(created ? "no session" : created.error().message);
        return disconnect();
    }
    viewer_->session = std::make_unique<viewer::RelaySession>(*viewer_->connection, merge_, shown_,
                                                              [this](const std::string& why) { complain(why); });
    const auto attached = viewer_->session->attach(sessions->front(), wire::Seek::kBeginning);
    viewer_->relay->synchronize();
    if (attached && !*attached) return;
    complain(attached ? (*attached)->message : attached.error().message);
    disconnect();
}

inline void ViewedRelayModel::disconnect() {
    if (!viewer_) return;
    viewer_->session.reset();
    tell();
    viewer_->connection.reset();
    is_forged_ = is_forged_ || viewer_->relay->has_forged();
    viewer_.reset();
}

inline bool ViewedRelayModel::look() {
    viewer_->relay->synchronize();
    const bool goes_on = follow();
    viewer_->relay->synchronize();
    return goes_on && violation_.empty();
}

// As `leat view` does it.
inline bool ViewedRelayModel::follow() {
    const std::uint64_t before = viewer_->relay->requests();
    const auto progress = viewer_->session->advance();
    tell();
    if (!progress) complain(progress.error().message);
    if (!progress || *progress == viewer::Progress::kEnded) return false;
    if (*progress == viewer::Progress::kNothingNew) {
        // Others sleep for a while.
        const bool waits = viewer_->connection->can_wait() || viewer_->connection->can_get_news();
        const auto waited = waits ? viewer_->session->wait() : Result<void>();
        if (!waited) complain(waited.error().message);
        if (!waited) return false;
    }
    if (viewer_->relay->requests() - before > kMostRequests) violate("it asks without end");
    return true;
}

inline void ViewedRelayModel::complain(const std::string& why) {
    ++complaints_;
    if (why.empty() || why.find('\n') != std::string::npos) violate("not a line: " + why);
    if (is_honest_) violate("an honest relay, but: " + why);
}

inline void ViewedRelayModel::tell() {
    for (auto is_one = merge_.next(); !is_one || *is_one; is_one = merge_.next()) {
        if (!is_one)
            complain(is_one.error().message);
        else if (merge_.message().kind == viewer::Message::Kind::kEvent)
            tell_event(merge_.message());
        else if (merge_.message().is_loss())
            tell_loss(merge_.message());
    }
}

inline void ViewedRelayModel::tell_event(const viewer::Message& message) {
    std::uint32_t number = 0;
    const std::uint64_t at = message.place.payload / 8;
    if (at + sizeof number > message.packet->bytes.size()) return violate("an event lies outside of its packet");
    std::memcpy(&number, &message.packet->bytes[at], sizeof number);
    told_[message.stream->instance_id.value_or(0)].push_back(number);
    ++told_count_;
}

// Events that the tracer discarded are told as often as they were. Packets were all there.
inline void ViewedRelayModel::tell_loss(const viewer::Message& message) {
    constexpr std::uint64_t kAbsurd = 1'000'000'000;
    const bool is_forged = is_forged_ || (viewer_ && viewer_->relay->has_forged());
    if (message.loss.count.value_or(0) > kAbsurd && !is_forged) violate("more is lost than there can have been");
    if (message.kind != viewer::Message::Kind::kDiscardedEvents || !message.loss.count)
        return complain("a loss is told");
    discarded_[message.stream->instance_id.value_or(0)] += *message.loss.count;
}

// Now the relay tells the truth, and the viewer gets the rest.
inline void ViewedRelayModel::finish() {
    disconnect();
    traces_.has_ended = true;
    for (ViewedTraces::Stream& stream : traces_.streams) stream.has_ended = true;
    manner_.is_honest = true;
    manner_.is_disorderly = false;
    connect();
    for (std::uint64_t looks = 0; viewer_ && look(); ++looks)
        if (looks > kMostLooks) return violate("it does not end");
    disconnect();
    if (is_honest_ || (complaints_ == 0 && !is_forged_)) check_told();
}

inline void ViewedRelayModel::check_told() {
    for (const ViewedTraces::Stream& stream : traces_.streams) {
        std::vector<std::uint32_t>& told = told_[stream.id];
        if (!is_honest_) std::ranges::sort(told);
        for (std::uint32_t i = 0; i < told.size(); ++i)
            if (told[i] != i)
                return violate(fmt::format("stream {}: event {} comes as number {}", stream.id, told[i], i));
        if (told.size() != stream.events)
            return violate(fmt::format("stream {}: {} events of {} are told", stream.id, told.size(), stream.events));
        if (discarded_[stream.id] != stream.discarded)
            return violate(fmt::format("stream {}: {} discarded events of {} are told", stream.id,
                                       discarded_[stream.id], stream.discarded));
    }
}

}  // namespace leat::test
