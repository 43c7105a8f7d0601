#include "viewer/read/relay_session.hpp"

#include <algorithm>
#include <utility>

#include "ctf/metadata/metadata_stream.hpp"

namespace leat::viewer {
namespace {

// A larger packet is not fetched. LTTng's sub-buffers have at most 1 GiB in theory, and a few MiB in practice.
constexpr std::uint64_t kMaxRelayedPacketSize = 64U << 20U;
// What one GET_PACKET asks for.
constexpr std::uint64_t kPieceSize = 1U << 20U;
// A request costs about as much time as printing this many bytes. Up to here events are printed first, because somebody
// may be looking at the screen. Beyond it, the next request is sent first, and the relay answers while we print.
constexpr std::uint64_t kFewBytes = 4096;
// Packets that may wait here for their streams. Beyond it the relay is asked about hungry streams only.
constexpr std::uint64_t kMaxQueued = 64U << 20U;

// The memory that an entry takes in a queue.
std::uint64_t weight(const LiveConnection::News::Entry& entry) { return sizeof entry + entry.packet.size(); }

bool has_status(const LiveConnection::News::Entry& entry, wire::IndexStatus status) {
    return entry.index.status == status;
}

// Numbers the traces of all sessions that this program follows.
std::uint64_t next_trace_number() {
    static std::uint64_t number = 0;
    return number++;
}

std::string cannot_be_fetched(std::uint64_t size) {
    return fmt::format("a packet of {} bytes cannot be fetched", size);
}

Error attach_error(const wire::ListedSession& session, wire::AttachStatus status) {
    const auto clause = fmt::format("cannot attach to session \"{}\"", session.session_name);
    switch (status) {
        case wire::AttachStatus::kAlready:
            return {ErrorKind::kRefused,
                    clause + ": another viewer is attached, and this relay serves one: end it, or use leat-relayd"};
        case wire::AttachStatus::kUnknownSession:
            return {ErrorKind::kNotFound, clause + ": it has ended"};
        case wire::AttachStatus::kNotLive:
            return {ErrorKind::kUnsupported, clause + ": it is not live: create it with --live, or read its files"};
        case wire::AttachStatus::kSeekError:
            return {ErrorKind::kUnsupported, clause + ": the relay cannot start there: try --from=start"};
        default:
            return {ErrorKind::kRefused, fmt::format("{}: the relay answered with status {}", clause, status)};
    }
}

}  // namespace

RelaySession::~RelaySession() {
    for (const auto& [id, data] : data_) data.stream->end();
    merge_->refresh();
}

Result<std::optional<Error>> RelaySession::attach(const wire::ListedSession& session, wire::Seek seek) {
    const auto answer = LEAT_TRY(connection_->attach(session.id, seek));
    if (answer.status != wire::AttachStatus::kOk) return attach_error(session, answer.status);
    add_streams(sessions_.emplace_back(Session{session.id}), answer.streams);
    return std::optional<Error>();
}

void RelaySession::add_streams(Session& session, const std::vector<wire::StreamDescriptor>& descriptors) {
    std::set<std::uint64_t> traces;
    for (const wire::StreamDescriptor& descriptor : descriptors) {
        if (known_streams_.contains(descriptor.id)) continue;
        if (known_streams_.size() >= kMaxStreams) {
            has_left_out_ = true;
            warn_("the relay has more streams than can be followed");
            break;
        }
        const bool is_of_new_trace = descriptor.is_metadata == 0 && !traces_.contains(descriptor.trace_id);
        if (has_left_out_ && is_of_new_trace) continue;  // without its metadata it would hold back all others
        known_streams_.insert(descriptor.id);
        session.streams.insert(descriptor.id);
        session.traces.insert(descriptor.trace_id);
        Trace& trace = traces_.try_emplace(descriptor.trace_id, Trace{LiveTrace(next_trace_number())}).first->second;
        if (descriptor.is_metadata != 0) {
            metadata_.push_back({descriptor.id, descriptor.trace_id});
            continue;
        }
        auto stream = std::make_shared<LiveStream>(
            StreamIdentity{.trace_number = trace.metadata.number(),
                           .name = fmt::format("{}/{}", descriptor.path, descriptor.channel_name)});
        merge_->add(stream);
        data_.insert_or_assign(descriptor.id, Data{descriptor.id, descriptor.trace_id, std::move(stream)});
        ++trace.streams;
        traces.insert(descriptor.trace_id);
    }
    for (const std::uint64_t id : traces)
        if (const auto model = traces_.at(id).metadata.model(); !model) end_trace(id, model.error().message);
}

Result<Progress> RelaySession::advance() {
    bool is_new = LEAT_TRY(take_queued());
    if (!is_new && !takes_news()) is_new = LEAT_TRY(advance_by_asking());
    forget_finished();
    merge_->refresh();
    if (is_new) return Progress::kNews;
    const bool is_over = data_.empty() && std::ranges::all_of(sessions_, &Session::has_hung_up);
    return is_over ? Progress::kEnded : Progress::kNothingNew;
}

Result<void> RelaySession::wait() {
    if (!connection_->has_requested_news()) LEAT_TRY(leave_ended());
    if (!takes_news()) return connection_->wait();
    if (!connection_->has_requested_news()) LEAT_TRY(connection_->request_news());
    return take_news();
}

bool RelaySession::takes_news() const {
    if (connection_->has_requested_news()) return true;
    // A packet whose index was asked for would not be among the news.
    const auto is_asked_for = [](const auto& data) { return data.second.index.has_value(); };
    return connection_->can_get_news() && queued_bytes_ < kMaxQueued && std::ranges::none_of(data_, is_asked_for);
}

Result<bool> RelaySession::advance_by_asking() {
    bool is_new = LEAT_TRY(ask_for_indexes());
    // Ask whenever there is no other news: some relays announce new streams only together with packets, so in a quiet
    // session never.
    const std::size_t known = known_streams_.size();
    if (wants_streams_ || !is_new) LEAT_TRY(ask_for_streams());
    is_new = is_new || known_streams_.size() != known;
    LEAT_TRY(fetch_metadata());
    if (LEAT_TRY(fetch_packets())) is_new = true;
    return is_new;
}

// New streams and metadata come first: the packets in the reply may need them. After a large reply the next one is
// requested at once, and comes while this one is printed. After a small one, wait() requests it (see kFewBytes).
Result<void> RelaySession::take_news() {
    LiveConnection::News news = LEAT_TRY(connection_->receive_news());
    if ((news.flags & wire::kNewStreams) != 0) LEAT_TRY(ask_for_streams());
    for (const LiveConnection::News::Entry& entry : news.entries) {
        const auto found = data_.find(entry.stream_id);
        if (found != data_.end() && (entry.index.flags & wire::kNewMetadata) != 0)
            want_metadata_of(found->second.trace_id);
    }
    LEAT_TRY(fetch_metadata());
    for (LiveConnection::News::Entry& entry : news.entries) {
        const auto found = data_.find(entry.stream_id);
        if (found == data_.end()) continue;  // it has ended here
        LEAT_TRY(complete(found->second, entry));
        enqueue(found->second, std::move(entry));
    }
    if (may_request_ahead_ && queued_bytes_ > kFewBytes && queued_bytes_ < kMaxQueued)
        return connection_->request_news();
    return {};
}

// A large packet is not part of the reply. Fetch it now: the relay keeps its file open until the next request for news.
Result<void> RelaySession::complete(Data& data, LiveConnection::News::Entry& entry) {
    if (!has_status(entry, wire::IndexStatus::kOk) || !entry.packet.empty()) return {};
    const std::uint64_t size = entry.index.entry.packet_size / 8;
    if (size == 0 || size > kMaxRelayedPacketSize) return {};  // take_queued() ends the stream
    // A relay tells of at most one such packet more than it was asked for.
    if (queued_bytes_ > kMaxQueued + kMaxRelayedPacketSize)
        return corrupt("the relay tells of more packets than were asked for");
    data.index = entry.index;
    auto packet = LEAT_TRY(receive_packet(data, size));
    while (!packet && data.index && LEAT_TRY(can_come_later(data))) packet = LEAT_TRY(receive_packet(data, size));
    entry.index.flags = data.index ? data.index->flags : 0;
    data.index.reset();
    if (packet) entry.packet = *std::move(packet);
    return {};
}

// Waits until the relay has the packet's file open, or fetches what it says that it needs before. False: that does not
// come, since it was cleared, and the relay would say so for ever.
Result<bool> RelaySession::can_come_later(const Data& data) {
    if ((data.index->flags & wire::kNewMetadata) == 0) {
        LEAT_TRY(connection_->wait());
        return true;
    }
    const LiveTrace& trace = traces_.at(data.trace_id).metadata;
    const std::size_t before = trace.metadata_size();
    LEAT_TRY(fetch_metadata());
    return trace.metadata_size() != before;
}

void RelaySession::enqueue(Data& data, LiveConnection::News::Entry entry) {
    // A beacon makes the beacon before it superfluous.
    const auto is_quiet = [](const auto& item) { return has_status(item, wire::IndexStatus::kInactive); };
    if (!data.queue.empty() && is_quiet(data.queue.back()) && is_quiet(entry)) {
        data.queue.back() = std::move(entry);
        return;
    }
    queued_bytes_ += weight(entry);
    data.queue.push_back(std::move(entry));
}

// Returns whether a hungry stream got something.
Result<bool> RelaySession::take_queued() {
    if (queued_bytes_ == 0) return false;
    const std::uint64_t before = queued_bytes_;
    for (auto& [id, data] : data_) LEAT_TRY(take_queued(data));
    return queued_bytes_ != before;
}

Result<void> RelaySession::take_queued(Data& data) {
    while (data.stream->is_hungry() && !data.queue.empty()) {
        LiveConnection::News::Entry entry = std::move(data.queue.front());
        data.queue.pop_front();
        queued_bytes_ -= weight(entry);
        if (!has_status(entry, wire::IndexStatus::kOk))
            take_index(data, entry.index);
        else if (entry.packet.empty() && (entry.index.flags & wire::kNewMetadata) != 0)
            do_without_metadata(data);
        else if (entry.packet.empty())
            end(data, cannot_be_fetched(entry.index.entry.packet_size / 8));
        else
            LEAT_TRY(feed(data, std::move(entry.packet), entry.index.entry.offset));
    }
    return {};
}

Result<void> RelaySession::ask_for_streams() {
    for (Session& session : sessions_) LEAT_TRY(ask_for_streams(session));
    wants_streams_ = false;
    return {};
}

// Those that go on may outlive thousands that end, as each process may have one. The last one is left at the end. A
// relay forgets what it has for us of a session that we leave: all that it has sent must have been shown.
Result<void> RelaySession::leave_ended() {
    if (std::ranges::all_of(sessions_, &Session::has_hung_up)) return {};
    for (auto session = sessions_.begin(); session != sessions_.end();) {
        const auto is_followed = [this](std::uint64_t id) { return data_.contains(id); };
        if (!session->has_hung_up || std::ranges::any_of(session->streams, is_followed)) {
            ++session;
            continue;
        }
        LEAT_TRY(connection_->detach(session->id));
        const Session left = std::move(*session);
        session = sessions_.erase(session);
        forget(left);
    }
    return {};
}

// Our relays tell of no stream again; nor of a trace all of whose streams have ended (docs/formats/live.md,
// "Messages").
void RelaySession::forget_stream(const Data& data) {
    known_streams_.erase(data.id);
    for (Session& session : sessions_) session.streams.erase(data.id);
    if (--traces_.at(data.trace_id).streams == 0) forget_trace(data.trace_id);
}

void RelaySession::forget_trace(std::uint64_t trace_id) {
    for (const Metadata& metadata : metadata_) {
        if (metadata.trace_id != trace_id) continue;
        known_streams_.erase(metadata.stream_id);
        for (Session& session : sessions_) session.streams.erase(metadata.stream_id);
    }
    std::erase_if(metadata_, [&](const Metadata& metadata) { return metadata.trace_id == trace_id; });
    for (Session& session : sessions_) session.traces.erase(trace_id);
    traces_.erase(trace_id);
}

// Relays number traces as they like: another session may have one of the same number.
void RelaySession::forget(const Session& left) {
    for (const std::uint64_t id : left.streams) known_streams_.erase(id);
    for (const std::uint64_t id : left.traces) {
        if (std::ranges::none_of(sessions_, [&](const Session& session) { return session.traces.contains(id); }))
            forget_trace(id);
    }
}

Result<void> RelaySession::ask_for_streams(Session& session) {
    if (session.has_hung_up) return {};
    const auto answer = LEAT_TRY(connection_->new_streams(session.id));
    switch (answer.status) {
        case wire::NewStreamsStatus::kOk:
            add_streams(session, answer.streams);
            return {};
        case wire::NewStreamsStatus::kNoNew:
            return {};
        case wire::NewStreamsStatus::kHangUp:
            session.has_hung_up = true;
            return {};
        default:
            // lttng-relayd answers so for a session that ended while we were reading it.
            session.has_hung_up = true;
            warn_(fmt::format("the relay does not know session {} any more", session.id));
            return {};
    }
}

// Returns whether there are packets to fetch, or a stream has ended.
Result<bool> RelaySession::ask_for_indexes() {
    std::vector<std::uint64_t> ids;
    std::vector<Data*> asked;
    for (auto& [id, data] : data_) {
        if (!data.stream->is_hungry() || data.index) continue;
        ids.push_back(id);
        asked.push_back(&data);
    }
    const std::vector<wire::NextIndexReply> replies = LEAT_TRY(connection_->next_indexes(ids));
    bool is_new = false;
    for (std::size_t i = 0; i < replies.size(); ++i) {
        if ((replies[i].flags & wire::kNewStreams) != 0) wants_streams_ = true;
        if ((replies[i].flags & wire::kNewMetadata) != 0) want_metadata_of(asked[i]->trace_id);
        // Its trace may have ended by an earlier reply.
        if (asked[i]->stream->is_hungry()) is_new |= take_index(*asked[i], replies[i]);
    }
    return is_new;
}

bool RelaySession::take_index(Data& data, const wire::NextIndexReply& reply) {
    switch (reply.status) {
        case wire::IndexStatus::kOk:
            data.index = reply;
            return true;
        case wire::IndexStatus::kRetry:
            return false;
        case wire::IndexStatus::kInactive:
            return be_quiet(data, reply);
        case wire::IndexStatus::kHangUp:
        case wire::IndexStatus::kEof:
            data.has_hung_up = true;
            if (data.lacks_metadata)
                end(data, "its packets came without metadata");
            else
                data.stream->end();
            return true;
        default:
            data.has_hung_up = true;
            end(data, fmt::format("the relay answered GET_NEXT_INDEX with status {}", reply.status));
            return true;
    }
}

// Returns whether the stream has ended, because its trace cannot be read.
bool RelaySession::be_quiet(Data& data, const wire::NextIndexReply& reply) {
    LiveTrace& trace = traces_.at(data.trace_id).metadata;
    if (const auto model = trace.model(); !model) {
        end_trace(data.trace_id, model.error().message);
        return true;
    }
    warn_of_failure(data);
    const auto time_ns = trace.nanoseconds(reply.entry.timestamp_end);
    if (time_ns) data.stream->quiet_until(*time_ns);
    return false;
}

void RelaySession::want_metadata_of(std::uint64_t trace_id) {
    for (Metadata& metadata : metadata_)
        if (metadata.trace_id == trace_id) metadata.is_wanted = true;
}

Result<void> RelaySession::fetch_metadata() {
    for (Metadata& metadata : metadata_)
        if (metadata.is_wanted && !metadata.is_closed) LEAT_TRY(fetch_metadata(metadata));
    return {};
}

// Asks until the relay has no more: only then does the metadata end with a whole declaration.
Result<void> RelaySession::fetch_metadata(Metadata& metadata) {
    LiveTrace& trace = traces_.at(metadata.trace_id).metadata;
    while (true) {
        // The trace itself says when it has too much.
        const auto answer = LEAT_TRY(connection_->metadata(metadata.stream_id, ctf::kMaxMetadataSize));
        if (answer.status != wire::MetadataStatus::kOk || answer.bytes.empty()) {
            // lttng-relayd says by an error that there will be no more.
            metadata.is_closed = answer.status == wire::MetadataStatus::kError;
            metadata.is_wanted = trace.metadata_size() == 0;
            return {};
        }
        auto appended = trace.append_metadata(answer.bytes);
        if (appended) continue;
        metadata.is_closed = true;
        warn_(fmt::format("a trace cannot be read any further: {}", appended.error().message));
        return {};
    }
}

Result<bool> RelaySession::fetch_packets() {
    bool is_new = false;
    for (auto& [id, data] : data_)
        if (data.index && data.stream->is_hungry() && LEAT_TRY(fetch_packet(data))) is_new = true;
    return is_new;
}

// Returns false if the relay does not have the packet yet.
Result<bool> RelaySession::fetch_packet(Data& data) {
    const std::uint64_t size = data.index->entry.packet_size / 8;
    const std::uint64_t offset = data.index->entry.offset;
    if (size == 0 || size > kMaxRelayedPacketSize) {
        data.index.reset();
        end(data,
            fmt::format("a packet of {} bytes is not read: it must have 1 to {} bytes", size, kMaxRelayedPacketSize));
        return true;
    }
    auto packet = LEAT_TRY(receive_packet(data, size));
    if (!packet && !data.index) end(data, cannot_be_fetched(size));
    if (!packet) return !data.index;
    data.index.reset();
    LEAT_TRY(feed(data, *std::move(packet), offset));
    return true;
}

// Returns nothing if the relay does not have the packet yet: data.index then has the flags that say why. Returns
// nothing and resets data.index if the relay refused the packet: this is to end the stream.
Result<std::optional<std::vector<std::byte>>> RelaySession::receive_packet(Data& data, std::uint64_t size) {
    std::vector<std::byte> packet(size);
    std::uint64_t filled = 0;
    while (filled < size) {
        const auto rest = std::span(packet).subspan(filled);
        const auto piece = LEAT_TRY(connection_->packet(data.id, data.index->entry.offset + filled,
                                                        rest.first(std::min<std::uint64_t>(rest.size(), kPieceSize))));
        filled += piece.length;
        data.index->flags = piece.flags;
        if (piece.status == wire::PacketStatus::kOk) continue;
        // Old relays answer with an error until new streams and metadata have been fetched; the flags say which.
        if ((piece.flags & wire::kNewStreams) != 0) wants_streams_ = true;
        if ((piece.flags & wire::kNewMetadata) != 0) want_metadata_of(data.trace_id);
        if (piece.status == wire::PacketStatus::kRetry || piece.flags != 0)
            return std::optional<std::vector<std::byte>>();
        data.index.reset();
        return std::optional<std::vector<std::byte>>();
    }
    return std::optional(std::move(packet));
}

Result<void> RelaySession::feed(Data& data, std::vector<std::byte> packet, std::uint64_t offset) {
    const auto model = traces_.at(data.trace_id).metadata.model();
    if (!model) {
        end_trace(data.trace_id, model.error().message);
        return {};
    }
    if (*model == nullptr) {
        do_without_metadata(data);
        return {};
    }
    data.lacks_metadata = false;
    warn_of_failure(data);
    const auto is_new = [&](std::uint64_t stream_class_id, const ctf::PacketProperties& properties) {
        const auto missed = shown_->add(*(*model)->trace_class, stream_class_id, properties);
        if (missed.value_or(0) != 0 && !is_awaited_elsewhere(data, *(*model)->trace_class, stream_class_id, properties))
            warn_of_missed(data, *missed);
        return missed.has_value();
    };
    auto fed = data.stream->feed(*model, std::move(packet), offset, is_new);
    if (!fed) {
        ++cut_short_;
        warn_(fed.error().message + "; the rest of the stream is not shown");
    }
    return {};
}

// Both were cleared after the relay had told us of the packet. The metadata comes again if the trace goes on; if not,
// our relay says so.
void RelaySession::do_without_metadata(Data& data) {
    const auto metadata = std::ranges::find(metadata_, data.trace_id, &Metadata::trace_id);
    if (metadata != metadata_.end() && metadata->is_closed && connection_->can_get_news())
        data.stream->end();
    else
        data.lacks_metadata = true;
}

// A producer that has connected again goes on in another stream, and what it had sent before may still be on its way.
bool RelaySession::is_awaited_elsewhere(const Data& data, const ctf::TraceClass& trace_class,
                                        std::uint64_t stream_class_id, const ctf::PacketProperties& packet) {
    return std::ranges::any_of(data_, [&](const auto& entry) {
        const Data& other = entry.second;
        const StreamIdentity& stream = other.stream->identity();
        if (&other == &data || stream.instance_id != packet.stream_instance_id || stream.class_id != stream_class_id)
            return false;
        const auto model = traces_.at(other.trace_id).metadata.model();
        return model && *model != nullptr && (*model)->trace_class->uuid == trace_class.uuid;
    });
}

// A killed relay may have stored packets that it had not shown to us yet. When it is started again, it does not show
// them. Gaps within one connection need no warning here: the stream counts them by the packets' numbers.
void RelaySession::warn_of_missed(const Data& data, std::uint64_t packets) {
    const StreamIdentity& stream = data.stream->identity();
    if (stream.instance_id) return;
    ++cut_short_;
    warn_(fmt::format("{}: {} packet{} before this connection {} not shown: the relay's files have what it has stored",
                      stream.name, packets, packets == 1 ? "" : "s", packets == 1 ? "is" : "are"));
}

// Streams that need no more than what was declared before go on.
void RelaySession::warn_of_failure(const Data& data) {
    const auto failure = traces_.at(data.trace_id).metadata.take_failure();
    if (!failure) return;
    ++cut_short_;
    warn_(fmt::format("{}: metadata: {}; what is declared there or later is not shown", data.stream->identity().name,
                      failure->message));
}

void RelaySession::end(Data& data, const std::string& why) {
    data.stream->end();
    ++cut_short_;
    warn_(fmt::format("{}: {}; the rest of the stream is not shown", data.stream->identity().name, why));
}

// The streams end together: one that never gets a packet would hold back the streams of other traces for ever.
void RelaySession::end_trace(std::uint64_t trace_id, const std::string& why) {
    std::string first;
    std::uint64_t ended = 0;
    for (auto& [id, data] : data_) {
        if (data.trace_id != trace_id || data.stream->is_ended()) continue;
        data.stream->end();
        if (ended++ == 0) first = data.stream->identity().name;
    }
    if (ended == 0) return;
    cut_short_ += ended;
    const std::string others =
        ended == 1 ? "" : fmt::format(" and {} other stream{} of its trace", ended - 1, ended == 2 ? "" : "s");
    warn_(fmt::format("{}{}: {}; the rest of {} is not shown", first, others, why, ended == 1 ? "the stream" : "them"));
}

void RelaySession::forget_finished() {
    std::erase_if(data_, [&](const auto& entry) {
        const Data& data = entry.second;
        if (!data.stream->is_finished()) return false;
        for (const auto& queued : data.queue) queued_bytes_ -= weight(queued);
        if (data.has_hung_up && connection_->can_get_news()) forget_stream(data);
        return true;
    });
}

Result<void> RelaySession::detach() {
    // The reply to GET_NEWS may take long, and no command may overtake it. Closing the connection detaches, too.
    if (connection_->has_requested_news()) return {};
    for (const Session& session : sessions_) LEAT_TRY(connection_->detach(session.id));
    return {};
}

}  // namespace leat::viewer
