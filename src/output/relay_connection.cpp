#include "output/relay_connection.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "base/random_value.hpp"
#include "ctf/metadata/metadata_packets.hpp"
#include "output/datagram_link.hpp"
#include "output/tcp_link.hpp"
#include "trace/stream_paths.hpp"

namespace leat::output {
namespace {

using namespace std::chrono_literals;
using wire::RelayCommand;

// A relay that takes connections answers at once; what listens there and says nothing is something else.
constexpr auto kHandshakePatience = 5s;

// What is stored is asked for when that much was sent, or that long after something was: each question costs the relay
// about as much as an index, and the rings wait for the answer.
constexpr std::uint64_t kAskAfterBytes = 64U << 10;
constexpr std::uint64_t kAskAfterPackets = 16;
constexpr auto kAskAfter = 20ms;
constexpr auto kAskAgain = 1ms;

// A relay that is this much behind gets no more beacons: what it will see next time is newer anyway.
constexpr std::size_t kMaxQueuedForBeacons = 64U << 10;
constexpr std::size_t kMaxExpectedForBeacons = 1024;

// So many answers that say nothing new may lie unread.
constexpr std::size_t kMaxUnreadAnswers = 64;

// The oldest that knows trace chunks.
constexpr std::uint32_t kOldestMinor = 11;

std::uint64_t seconds_since_epoch() { return static_cast<std::uint64_t>(std::time(nullptr)); }

Result<void> expect_ok(RelayCommand command, wire::RelayCode code) {
    if (code == wire::RelayCode::kOk) return {};
    return refused("it answers {} with error {}", wire::name_of(command), code);
}

tl::unexpected<Error> no_datagrams() { return unsupported("it does not take datagrams: use net://"); }

std::uint32_t last_word(UntrustedBytes bytes) {
    std::uint32_t value = 0;
    for (const std::byte byte : bytes.last(4)) value = value << 8 | std::to_integer<std::uint32_t>(byte);
    return value;
}

}  // namespace

tl::unexpected<Error> cannot_connect(const net::RelayAddress& address, const Error& error) {
    if (error.kind == ErrorKind::kUnsupported) return unsupported("relay {}: {}", to_text(address), error.message);
    if (error.kind == ErrorKind::kRefused)
        return refused("relay {} does not take the session: {}: its log says why", to_text(address), error.message);
    return fail(error.kind, "cannot reach relay {}: {}: start leat-relayd there, or check the address",
                to_text(address), error.message);
}

std::array<std::uint8_t, 16> random_sender() {
    auto uuid = random_value<std::array<std::uint8_t, 16>>();
    uuid[0] |= 1;  // never nil
    return uuid;
}

Result<std::unique_ptr<RelayConnection>> RelayConnection::open(const net::HostAddress& host,
                                                               const net::RelayAddress& address,
                                                               const SessionDescription& session,
                                                               std::uint64_t creation_time, UnstoredPackets& unstored) {
    net::StreamSocket control = LEAT_TRY(net::StreamSocket::connect(host, address.control_port));
    std::unique_ptr<RelayConnection> connection(
        new RelayConnection(host, address, session, creation_time, unstored, std::move(control), Clock::now()));
    connection->request(RelayCommand::kVersion, wire::Version{});
    return connection;
}

RelayConnection::RelayConnection(const net::HostAddress& host, const net::RelayAddress& address,
                                 const SessionDescription& session, std::uint64_t creation_time,
                                 UnstoredPackets& unstored, net::StreamSocket control, Clock::time_point now)
    : host_(host),
      address_(address),
      session_(session),
      creation_time_(creation_time),
      control_(std::move(control)),
      chunk_(session.snapshot ? session.snapshot->number : 0),
      give_up_at_(now + kHandshakePatience),
      unstored_(&unstored) {}

template <class Message>
void RelayConnection::request(RelayCommand command, const Message& message, Expected expected) {
    const wire::Bytes bytes = wire::encode_request(command, message, minor_);
    output_.back().insert(output_.back().end(), bytes.begin(), bytes.end());
    expected_.push_back(expected);
}

void RelayConnection::request_session() {
    step_ = Step::kSession;
    request(RelayCommand::kCreateSession,
            wire::CreateSession{.session_name = session_.name,
                                .hostname = session_.hostname,
                                .live_timer_us = session_.live_timer_us,
                                .is_snapshot = session_.snapshot.has_value(),
                                .sessiond_uuid = session_.snapshot ? session_.snapshot->sender : random_sender(),
                                .creation_time = creation_time_});
}

void RelayConnection::request_chunk(std::uint64_t creation_time) {
    chunk_begun_ = creation_time;
    request(RelayCommand::kCreateTraceChunk,
            wire::CreateTraceChunk{.chunk_id = chunk_,
                                   .creation_time = creation_time,
                                   .override_name = session_.snapshot ? session_.snapshot->name : std::string()});
}

void RelayConnection::announce(std::span<const consumer::StreamId> streams) {
    for (const consumer::StreamId id : streams) (void)stream_of(id);
    if (step_ == Step::kReady) request_streams(streams);
}

RelayConnection::SentStream& RelayConnection::stream_of(consumer::StreamId id) {
    return streams_.try_emplace(id, SentStream{.packets = &(*unstored_)[id]}).first->second;
}

void RelayConnection::request_metadata_stream() {
    if (std::exchange(is_metadata_announced_, true)) return;
    request(
        RelayCommand::kAddStream,
        wire::AddStream{.channel_name = trace::kMetadataFile, .path = session_.trace_path, .trace_chunk_id = chunk_},
        {.command = RelayCommand::kAddStream, .is_metadata = true});
}

// One message makes them visible to readers, all at once. Nobody reads a snapshot before it is whole.
void RelayConnection::request_streams(std::span<const consumer::StreamId> streams) {
    for (const consumer::StreamId id : streams) {
        const ChannelFiles& channel = session_.channels[id.channel];
        request(RelayCommand::kAddStream,
                wire::AddStream{.channel_name = trace::stream_name(channel.name, id.ring),
                                .path = session_.trace_path,
                                .tracefile_size = channel.limits.size,
                                .tracefile_count = channel.limits.count,
                                .trace_chunk_id = chunk_},
                {.command = RelayCommand::kAddStream, .stream = id});
    }
    if (session_.snapshot) return;
    request_metadata_stream();
    const wire::Bytes bytes = wire::encode_request(RelayCommand::kStreamsSent);
    output_.back().insert(output_.back().end(), bytes.begin(), bytes.end());
    expected_.push_back({.command = RelayCommand::kStreamsSent});
}

void RelayConnection::send_metadata(std::string_view unit) {
    unsent_metadata_ += unit;
    flush_metadata();
}

// One message: between RESET_METADATA and its end, the relay keeps the old text. The answer to QUIESCENT_CONTROL says
// that the new one is stored: nothing answers SEND_METADATA.
void RelayConnection::replace_metadata(std::string_view text) {
    if (!metadata_handle_ || sent_units_.empty()) {
        unsent_metadata_ = text;
        return flush_metadata();
    }
    request(RelayCommand::kResetMetadata,
            wire::ResetMetadata{.stream_id = *metadata_handle_, .version = ++metadata_version_});
    wire::Bytes all;
    std::uint32_t padding = 0;
    for (const std::size_t size : sent_units_) {
        all.resize(all.size() + padding);
        const ctf::MetadataPackets packets = ctf::packetize_metadata(text.substr(0, size), session_.trace_uuid);
        all.insert(all.end(), packets.bytes.begin(), packets.bytes.end());
        padding = packets.padding_size;
        text.remove_prefix(size);
    }
    append_metadata(all, padding);
    unsent_metadata_ = text;
    flush_metadata();
    request(RelayCommand::kQuiescentControl, wire::IdRequest{.id = *metadata_handle_});
}

// Units gather until the relay has a stream for them; they are one unit then.
void RelayConnection::flush_metadata() {
    if (!metadata_handle_ || unsent_metadata_.empty()) return;
    const ctf::MetadataPackets packets = ctf::packetize_metadata(unsent_metadata_, session_.trace_uuid);
    append_metadata(packets.bytes, packets.padding_size);
    sent_units_.push_back(unsent_metadata_.size());
    unsent_metadata_.clear();
}

void RelayConnection::append_metadata(UntrustedBytes packets, std::uint32_t padding) {
    wire::Bytes& bytes = output_.back();
    wire::append(bytes, wire::ControlHeader{.data_size = wire::kSizeOf<wire::SendMetadata> + packets.size(),
                                            .command = RelayCommand::kSendMetadata});
    wire::append(bytes, wire::SendMetadata{.stream_id = *metadata_handle_, .padding_size = padding});
    bytes.insert(bytes.end(), packets.begin(), packets.end());
}

void RelayConnection::send_packet(const consumer::Packet& packet) {
    SentStream& stream = stream_of(packet.stream);
    stream.stream_class_id = packet.header.stream_id;
    turns_.push_back(&stream);
}

void RelayConnection::send_beacon(consumer::StreamId id, std::uint64_t timestamp) {
    if (session_.live_timer_us == 0) return;
    SentStream& stream = stream_of(id);
    stream.beacon = timestamp;
    send_pending_beacon(stream);
}

// A beacon that overtakes a packet would turn time back.
void RelayConnection::send_pending_beacon(SentStream& stream) {
    if (!stream.beacon || !stream.handle || stream.packets->has_unsent()) return;
    const std::uint64_t timestamp = *stream.beacon;
    stream.beacon.reset();
    if (output_.size() > kMaxQueuedForBeacons || expected_.size() > kMaxExpectedForBeacons) return;
    request(RelayCommand::kSendIndex, wire::SendIndex{.stream_id = *stream.handle,
                                                      .net_seq_num = stream.last_sent(),
                                                      .entry = {.timestamp_end = timestamp,
                                                                .stream_class_id = stream.stream_class_id,
                                                                .stream_instance_id = 0,
                                                                .packet_seq_num = 0}});
}

void RelayConnection::send_index(const consumer::Packet& packet, SentStream& stream) {
    constexpr std::uint64_t kNotSent = 0;
    request(RelayCommand::kSendIndex, wire::SendIndex{.stream_id = *stream.handle,
                                                      .net_seq_num = packet.header.packet_seq_num,
                                                      .entry = ctf::index_entry_of(packet.header, kNotSent)});
}

Result<void> RelayConnection::send_data(Clock::time_point now) {
    while (data_ && !turns_.empty()) {
        SentStream& stream = *turns_.front();
        const consumer::Packet& packet = stream.packets->next_unsent();
        if (!stream.handle || (!metadata_handle_ && !session_.snapshot)) return {};
        if (data_->is_idle()) data_->begin(packet, *stream.handle);
        LEAT_TRY(data_->flush(now));
        if (!data_->is_idle()) return {};
        turns_.pop_front();
        stream.packets->note_sent();
        ++packets_sent_;
        if (!session_.snapshot) send_index(packet, stream);
        send_pending_beacon(stream);
        unconfirmed_bytes_ += packet.header.packet_size / 8;
        const bool is_much = unconfirmed_bytes_ >= kAskAfterBytes || ++unconfirmed_packets_ >= kAskAfterPackets;
        ask_at(is_much ? now : now + kAskAfter);
    }
    return {};
}

void RelayConnection::ask_at(Clock::time_point time) { ask_at_ = ask_at_ ? std::min(*ask_at_, time) : time; }

// An index that was answered does not mean that its data arrived: it may lie in the buffers of a relay that is killed.
void RelayConnection::ask_what_is_stored(Clock::time_point now) {
    if (!ask_at_ || now < *ask_at_) return;
    ask_at_.reset();
    unconfirmed_bytes_ = unconfirmed_packets_ = 0;
    for (auto& [id, stream] : streams_) {
        if (stream.packets->is_asked() || !stream.packets->has_unconfirmed()) continue;
        request(RelayCommand::kDataPending,
                wire::DataPending{.stream_id = *stream.handle, .last_net_seq_num = stream.packets->ask()},
                {.command = RelayCommand::kDataPending, .stream = id});
    }
}

// Out of the chunk that they are in. A stream without packets on this connection begins at any number.
void RelayConnection::rotate_streams(std::optional<std::uint64_t> chunk) {
    wire::RotateStreams rotation{.new_chunk_id = chunk};
    for (const auto& [id, stream] : streams_)
        if (stream.handle) rotation.positions.push_back({*stream.handle, stream.last_sent() + 1});
    if (!rotation.positions.empty()) request(RelayCommand::kRotateStreams, rotation);
    rotation.positions = {{*metadata_handle_, 0}};
    request(RelayCommand::kRotateStreams, rotation);
}

// A part of a session that follows another at once has the next second for its begin, and ends no earlier.
std::uint64_t RelayConnection::time_in_chunk() const { return std::max(seconds_since_epoch(), chunk_begun_); }

// Metadata that waits is part of all there is: it comes once. It comes before the first index of the new chunk, and
// the chunk before has all that its packets need, because they are stored. ([live-metadata-fix])
void RelayConnection::switch_chunk(std::string_view metadata, wire::ChunkCommand what_becomes_of_it) {
    LEAT_CHECK(is_answered() && metadata_handle_);
    const std::uint64_t before = chunk_++;
    has_rotated_ = has_rotated_ || what_becomes_of_it == wire::ChunkCommand::kMoveToArchives;
    const std::uint64_t now = time_in_chunk();
    request_chunk(now);
    rotate_streams(chunk_);
    unsent_metadata_ = metadata;
    sent_units_.clear();
    flush_metadata();
    request(RelayCommand::kCloseTraceChunk,
            wire::CloseTraceChunk{.chunk_id = before, .close_time = now, .command = what_becomes_of_it});
}

// Metadata first, as LTTng's consumer does.
void RelayConnection::request_end_of_streams() {
    request(RelayCommand::kCloseStream, wire::CloseStream{.stream_id = *metadata_handle_});
    for (const auto& [id, stream] : streams_)
        if (stream.handle)
            request(RelayCommand::kCloseStream,
                    wire::CloseStream{.stream_id = *stream.handle, .last_net_seq_num = stream.last_sent()});
}

// The answer to QUIESCENT_CONTROL says that the metadata is stored: nothing answers SEND_METADATA.
void RelayConnection::close_snapshot() {
    if (!metadata_handle_) return request_metadata_stream();
    request(RelayCommand::kQuiescentControl, wire::IdRequest{.id = *metadata_handle_});
    request_end_of_streams();
    request(RelayCommand::kCloseTraceChunk, wire::CloseTraceChunk{.chunk_id = chunk_, .close_time = time_in_chunk()});
    step_ = Step::kClosing;
}

// The last chunk of a session that was rotated goes to the others.
void RelayConnection::close() {
    if (step_ != Step::kReady) return;
    if (session_.snapshot) return close_snapshot();
    if (!metadata_handle_) return;
    rotate_streams(std::nullopt);
    wire::CloseTraceChunk close{.chunk_id = chunk_, .close_time = time_in_chunk()};
    if (has_rotated_) close.command = wire::ChunkCommand::kMoveToArchives;
    request(RelayCommand::kCloseTraceChunk, close);
    request_end_of_streams();
    step_ = Step::kClosing;
}

Result<void> RelayConnection::run(Clock::time_point now) {
    auto received = control_.receive_into(input_);
    LEAT_TRY(handle_replies(now));
    LEAT_TRY(received);
    if (data_) LEAT_TRY(of_data_port(data_->check()));
    if (!is_ready() && now > give_up_at_) {
        auto silent = fail(ErrorKind::kIo, "it does not answer");
        return step_ < Step::kReady ? silent : of_data_port(std::move(silent));
    }
    return send(now);
}

// Until there is a connection; afterwards it is the relay's as a whole.
Result<void> RelayConnection::of_data_port(Result<void> result) const {
    if (result || data_->is_connected()) return result;
    return wrap(fmt::format("its port {} for data", address_.data_port), std::move(result).error());
}

Result<void> RelayConnection::send(Clock::time_point now) {
    LEAT_TRY(send_data(now));
    ask_what_is_stored(now);
    return output_.flush(control_);
}

std::array<pollfd, 2> RelayConnection::wanted() const {
    int events = POLLRDHUP;
    if (waits_for_answer()) events |= POLLIN;
    if (!output_.is_empty()) events |= POLLOUT;
    return {pollfd{control_.fd(), static_cast<short>(events), 0}, data_ ? data_->wanted() : pollfd{-1, 0, 0}};
}

// Most answers say nothing but that an index or a beacon has come: they are read when run() is called for something
// else, which saves a wake-up for each packet and each tick.
bool RelayConnection::waits_for_answer() const {
    const auto can_wait = [](const Expected& expected) { return expected.command == RelayCommand::kSendIndex; };
    return expected_.size() >= kMaxUnreadAnswers || !std::ranges::all_of(expected_, can_wait);
}

RelayConnection::Clock::time_point RelayConnection::deadline() const {
    if (!is_ready()) return give_up_at_;
    return std::min(ask_at_.value_or(Clock::time_point::max()), data_->deadline());
}

Result<std::optional<std::size_t>> RelayConnection::reply_size(RelayCommand command) const {
    const auto with_path = [this](std::size_t head) -> Result<std::optional<std::size_t>> {
        if (input_.size() < head) return std::nullopt;
        const std::uint32_t length = last_word(UntrustedBytes(input_).first(head));
        if (length > wire::kMaxBasePath) return corrupt("it sends a path of {} bytes", length);
        return head + length;
    };
    switch (command) {
        case RelayCommand::kVersion:
            return wire::kSizeOf<wire::Version>;
        case RelayCommand::kGetConfiguration:
            return wire::kSizeOf<wire::ConfigurationReply>;
        case RelayCommand::kCreateSession:
            return with_path(wire::kHeadSizeOf<wire::CreateSessionReply>);
        case RelayCommand::kAddStream:
            return wire::kSizeOf<wire::AddStreamReply>;
        case RelayCommand::kCloseTraceChunk:
            return with_path(wire::kHeadSizeOf<wire::CloseTraceChunkReply>);
        default:
            return wire::kSizeOf<wire::CodeReply>;
    }
}

Result<void> RelayConnection::handle_replies(Clock::time_point now) {
    while (!input_.empty()) {
        if (expected_.empty()) return corrupt("it sends what nobody asked for");
        const std::optional<std::size_t> size = LEAT_TRY(reply_size(expected_.front().command));
        if (!size || input_.size() < *size) return {};
        const Expected expected = expected_.front();
        expected_.pop_front();
        if (expected.command != RelayCommand::kDataPending) ++answers_;
        LEAT_TRY(handle_reply(expected, UntrustedBytes(input_).first(*size), now));
        input_.erase(input_.begin(), input_.begin() + static_cast<std::ptrdiff_t>(*size));
    }
    return {};
}

Result<void> RelayConnection::handle_reply(const Expected& expected, UntrustedBytes bytes, Clock::time_point now) {
    switch (expected.command) {
        case RelayCommand::kVersion:
            return handle_version(bytes);
        case RelayCommand::kGetConfiguration:
            return handle_configuration(bytes);
        case RelayCommand::kCreateSession:
            return handle_session(bytes);
        case RelayCommand::kAddStream:
            return handle_stream(expected, bytes);
        case RelayCommand::kDataPending:
            return handle_stored(expected, bytes, now);
        case RelayCommand::kCloseTraceChunk:
            return handle_closed_chunk(bytes);
        default:
            break;
    }
    LEAT_TRY(expect_ok(expected.command, LEAT_TRY(wire::parse<wire::CodeReply>(bytes)).code));
    if (expected.command != RelayCommand::kCreateTraceChunk || step_ != Step::kChunk) return {};
    step_ = Step::kReady;
    std::vector<consumer::StreamId> ids;
    ids.reserve(streams_.size());
    for (const auto& [id, stream] : streams_) ids.push_back(id);
    request_streams(ids);
    return {};
}

Result<void> RelayConnection::handle_version(UntrustedBytes bytes) {
    const wire::Version version = LEAT_TRY(wire::parse<wire::Version>(bytes));
    if (version.major != wire::kProtocolMajor || version.minor < kOldestMinor)
        return unsupported("it speaks protocol {}.{}, 2.{} or later is needed: upgrade the relay", version.major,
                           version.minor, kOldestMinor);
    minor_ = std::min(version.minor, wire::kProtocolMinor);
    if (minor_ < 12 && address_.takes_datagrams) return no_datagrams();
    if (minor_ < 12) {
        request_session();
        return {};
    }
    step_ = Step::kConfiguration;
    const std::uint64_t query = address_.takes_datagrams ? wire::kQueryDatagrams : 0;
    request(RelayCommand::kGetConfiguration, wire::GetConfiguration{.query_flags = query});
    return {};
}

Result<void> RelayConnection::handle_configuration(UntrustedBytes bytes) {
    const wire::ConfigurationReply reply = LEAT_TRY(wire::parse<wire::ConfigurationReply>(bytes));
    const bool is_ok = reply.code == wire::RelayCode::kOk;
    if (address_.takes_datagrams && (!is_ok || (reply.flags & wire::kQueryDatagrams) == 0)) return no_datagrams();
    allows_clear_ = is_ok && (reply.flags & wire::kClearAllowed) != 0;
    request_session();
    return {};
}

Result<void> RelayConnection::handle_session(UntrustedBytes bytes) {
    const wire::CreateSessionReply reply = LEAT_TRY(wire::parse<wire::CreateSessionReply>(bytes, minor_));
    LEAT_TRY(expect_ok(RelayCommand::kCreateSession, reply.code));
    data_ = LEAT_TRY(open_data_link());
    step_ = Step::kChunk;
    request_chunk(session_.snapshot ? seconds_since_epoch() : creation_time_);
    return {};
}

Result<std::unique_ptr<DataLink>> RelayConnection::open_data_link() const {
    if (address_.takes_datagrams)
        return std::make_unique<DatagramLink>(LEAT_TRY(net::open_datagram_socket(host_, address_.data_port)));
    return std::make_unique<TcpLink>(LEAT_TRY(net::StreamSocket::connect(host_, address_.data_port)));
}

Result<void> RelayConnection::handle_stream(const Expected& expected, UntrustedBytes bytes) {
    const wire::AddStreamReply reply = LEAT_TRY(wire::parse<wire::AddStreamReply>(bytes));
    LEAT_TRY(expect_ok(RelayCommand::kAddStream, reply.code));
    if (expected.is_metadata) {
        metadata_handle_ = reply.handle;
        flush_metadata();
    } else {
        stream_of(expected.stream).handle = reply.handle;
    }
    return {};
}

Result<void> RelayConnection::handle_closed_chunk(UntrustedBytes bytes) {
    wire::CloseTraceChunkReply reply = LEAT_TRY(wire::parse<wire::CloseTraceChunkReply>(bytes));
    LEAT_TRY(expect_ok(RelayCommand::kCloseTraceChunk, reply.code));
    // LTTng's relay names the directory of the session when it rotates first ([LTTng-2.13], CLOSE_TRACE_CHUNK).
    constexpr const char* kArchives = "/archives";
    if (has_rotated_ && reply.path.find(kArchives) == std::string::npos) reply.path += kArchives;
    closed_chunk_ = std::move(reply.path);
    return {};
}

Result<void> RelayConnection::handle_stored(const Expected& expected, UntrustedBytes bytes, Clock::time_point now) {
    const wire::RelayCode code = LEAT_TRY(wire::parse<wire::CodeReply>(bytes)).code;
    const bool is_stored = code == wire::RelayCode::kNotPending;
    auto& packets = *stream_of(expected.stream).packets;
    is_stored ? packets.note_stored() : packets.note_pending();
    if (is_stored) ++answers_;
    if (!is_stored && code != wire::RelayCode::kPending) return expect_ok(expected.command, code);
    if (packets.has_unconfirmed()) ask_at(now + kAskAgain);
    return {};
}

}  // namespace leat::output
