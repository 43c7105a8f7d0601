// What viewers ask for, and what they must be told: see relay_model.hpp.
#pragma once

#include "support/relay_model.hpp"

namespace leat::test {

using wire::LiveCommand;

inline bool RelayModel::ask(ModelledViewer& viewer, const wire::Bytes& bytes, std::size_t size, wire::Bytes& reply,
                            const char* what) {
    if (!is_good() || !viewer.peer.is_open()) return false;
    auto outcome = viewer.peer.send(bytes);
    if (outcome == ModelPeer::Outcome::kDone) outcome = viewer.peer.receive(size, reply);
    if (outcome == ModelPeer::Outcome::kDone) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // moment: it fails anyway; of what?
    if (check_alive())
        violate("viewer", "viewer {}: {}: {}", viewer.id, what,
                outcome == ModelPeer::Outcome::kSilent ? "no answer" : "the relay closed the connection");
    return false;
}

template <class Message>
wire::Bytes live_request(LiveCommand command, const Message& message) {
    wire::Bytes bytes;
    wire::append_request(bytes, command, message);
    return bytes;
}
inline wire::Bytes live_request(LiveCommand command) {
    wire::Bytes bytes;
    wire::append_request(bytes, command);
    return bytes;
}

inline void RelayModel::forget_viewer(ModelledViewer& viewer) {
    viewer.peer.cut(false);
    viewer.attached.clear();
    viewer.streams.clear();
    viewer.waits_for_news = false;
}

inline ModelledViewer* RelayModel::begin_viewer() {
    if (!is_running_ || !is_good()) return nullptr;
    ModelledViewer& viewer = viewers_.emplace_back();
    viewer.id = viewers_.size();
    tell("viewer {} begins", viewer.id);
    viewer.peer.connect(ports_.live, [this] { empty_disk(); });
    const wire::Connect connect{.viewer_session_id = wire::kAskCapabilities | wire::kCanGetNews | wire::kCanWait};
    wire::Bytes reply;
    if (!ask(viewer, live_request(LiveCommand::kConnect, connect), 20, reply, "CONNECT")) return nullptr;
    if (wire::parse<wire::Connect>(reply)->type != (wire::kHaveCapabilities | wire::kCanGetNews | wire::kCanWait))
        violate("viewer", "CONNECT: the relay does not offer what it can");
    if (!ask(viewer, live_request(LiveCommand::kCreateSession), 4, reply, "CREATE_SESSION")) return nullptr;
    if (!ask(viewer, live_request(LiveCommand::kListSessions), 4, reply, "LIST_SESSIONS")) return nullptr;
    const std::uint32_t count = wire::parse<wire::WordReply>(reply)->value;
    std::set<std::uint64_t> listed;
    for (std::uint32_t i = 0; i < count; ++i) {
        wire::Bytes entry;
        if (viewer.peer.receive(wire::kSizeOf<wire::ListedSession>, entry) != ModelPeer::Outcome::kDone) break;
        const auto session = wire::parse<wire::ListedSession>(entry);
        if (!session) violate("viewer", "LIST_SESSIONS: {}", session.error().message);
        if (session) listed.insert(session->id);
    }
    for (const ModelledPart& part : parts_)
        if (!part.is_over && part.session != 0 && !listed.contains(part.session))
            violate("viewer", "LIST_SESSIONS does not have session {}", part.session);
    return &viewer;
}

inline void RelayModel::attach(ModelledViewer& viewer, ModelledPart& part, wire::Seek seek) {
    tell("viewer {} attaches to part {} from {}", viewer.id, part.id, seek == wire::Seek::kLast ? "now" : "the start");
    wire::Bytes reply;
    const wire::AttachSession request{part.session, 0, seek};
    if (!ask(viewer, live_request(LiveCommand::kAttachSession, request), 8, reply, "ATTACH_SESSION")) return;
    const auto answer = wire::parse<wire::AttachReply>(reply);
    const auto status = answer->status;
    const bool is_new = !viewer.attached.contains(part.session);
    const bool is_expected = is_new && part.is_live && !part.is_over;
    if ((status == wire::AttachStatus::kOk) != is_expected && !(is_new && part.is_live))
        violate("viewer", "viewer {}: ATTACH_SESSION {}: status {}", viewer.id, part.session, answer->status);
    if (status != wire::AttachStatus::kOk) return;
    viewer.attached[part.session] = &part;
    note_streams(viewer, part, answer->streams, seek == wire::Seek::kBeginning);
}

inline void RelayModel::look_for_streams(ModelledViewer& viewer, ModelledPart& part) {
    wire::Bytes reply;
    const wire::LiveIdRequest request{part.session};
    if (!ask(viewer, live_request(LiveCommand::kGetNewStreams, request), 8, reply, "GET_NEW_STREAMS")) return;
    const auto answer = wire::parse<wire::NewStreamsReply>(reply);
    if (answer->status == wire::NewStreamsStatus::kError)
        return violate("viewer", "viewer {}: GET_NEW_STREAMS {}: an error", viewer.id, part.session);
    if (answer->status == wire::NewStreamsStatus::kHangUp && !part.is_over)
        return violate("viewer", "viewer {}: session {} has not ended", viewer.id, part.session);
    note_streams(viewer, part, answer->streams, true);
}

// Each stream is told once. Each trace has one metadata stream, told with the first of its streams.
inline void RelayModel::note_streams(ModelledViewer& viewer, ModelledPart& part, std::uint32_t count,
                                     bool is_from_start) {
    std::set<std::uint64_t> data_traces;
    for (std::uint32_t i = 0; i < count && is_good(); ++i) {
        wire::Bytes bytes;
        if (viewer.peer.receive(wire::kSizeOf<wire::StreamDescriptor>, bytes) != ModelPeer::Outcome::kDone)
            return violate("viewer", "viewer {}: stream descriptors end early", viewer.id);
        const auto told = wire::parse<wire::StreamDescriptor>(bytes);
        if (!told) return violate("viewer", "viewer {}: {}", viewer.id, told.error().message);
        tell("  viewer {} is told of stream {} of trace {}: {} {}", viewer.id, told->id, told->trace_id, told->path,
             told->channel_name);
        if (!viewer.told_streams.insert(told->id).second)
            return violate("viewer", "viewer {}: stream {} is told twice", viewer.id, told->id);
        const bool is_metadata = told->is_metadata != 0;
        for (const auto& [id, other] : viewer.streams)
            if (is_metadata && other.is_metadata && other.trace == told->trace_id)
                return violate("metadata-twice", "viewer {}: trace {} has metadata streams {} and {}", viewer.id,
                               told->trace_id, id, told->id);
        bool is_known = false;
        for (const ModelledStream* stream : streams_of(part))
            is_known = is_known ||
                       (stream->has_path(told->path) && stream->channel == told->channel_name && stream->is_published);
        if (!is_known)
            return violate("viewer", "viewer {}: {} {} was not published", viewer.id, told->path, told->channel_name);
        if (!is_metadata) data_traces.insert(told->trace_id);
        viewer.streams[told->id] = {.part = &part,
                                    .trace = told->trace_id,
                                    .is_metadata = is_metadata,
                                    .is_from_start = is_from_start,
                                    .first_chunk = part.recording->next_chunk == 0 ? 0 : part.recording->next_chunk - 1,
                                    .path = told->path,
                                    .channel = told->channel_name};
    }
    for (const std::uint64_t trace : data_traces)
        if (std::ranges::none_of(viewer.streams, [&](const auto& entry) {
                return entry.second.is_metadata && entry.second.trace == trace;
            }))
            return violate("viewer", "viewer {}: trace {} is told without its metadata", viewer.id, trace);
}

// Reading -------------------------------------------------------------------------------------------------------------

inline void RelayModel::read_all(ModelledViewer& viewer) {
    if (viewer.waits_for_news || !viewer.peer.is_open()) return;
    tell("viewer {} reads", viewer.id);
    const auto attached = viewer.attached;
    for (const auto& [session, part] : attached) look_for_streams(viewer, *part);
    std::vector<std::uint64_t> ids;
    for (const auto& [id, stream] : viewer.streams) ids.push_back(id);
    for (const std::uint64_t id : ids) read_stream(viewer, id);
}

inline void RelayModel::read_stream(ModelledViewer& viewer, std::uint64_t id) {
    ModelledViewer::Stream& stream = viewer.streams[id];
    if (stream.is_metadata) return read_metadata(viewer, stream, id);
    while (is_good() && !stream.has_ended && read_next(viewer, id)) {
    }
}

inline bool RelayModel::read_next(ModelledViewer& viewer, std::uint64_t id) {
    wire::Bytes bytes;
    if (!ask(viewer, live_request(LiveCommand::kGetNextIndex, wire::LiveIdRequest{id}),
             wire::kSizeOf<wire::NextIndexReply>, bytes, "GET_NEXT_INDEX"))
        return false;
    const auto reply = wire::parse<wire::NextIndexReply>(bytes);
    switch (reply->status) {
        case wire::IndexStatus::kOk:
            break;
        case wire::IndexStatus::kInactive:
            see_beacon(viewer, id, reply->entry.timestamp_end);
            return false;
        case wire::IndexStatus::kHangUp:
            see_end(viewer, id);
            return false;
        case wire::IndexStatus::kRetry:
            return false;
        default:
            violate("viewer", "viewer {}: GET_NEXT_INDEX of stream {}: status {}", viewer.id, id, reply->status);
            return false;
    }
    follow_flags(viewer, id, reply->flags);
    const auto packet = fetch(viewer, id, *reply);
    if (!packet) return false;
    see_packet(viewer, id, *reply, *packet);
    return is_good();
}

inline void RelayModel::follow_flags(ModelledViewer& viewer, std::uint64_t id, std::uint32_t flags) {
    const auto stream = viewer.streams[id];
    if ((flags & wire::kNewStreams) != 0) look_for_streams(viewer, *stream.part);
    if ((flags & wire::kNewMetadata) == 0) return;
    for (auto& [other_id, other] : viewer.streams)
        if (other.is_metadata && other.trace == stream.trace) return read_metadata(viewer, other, other_id);
}

inline std::size_t RelayModel::bytes_of_metadata(const ModelledViewer& viewer) {
    std::size_t sum = 0;
    for (const auto& [id, stream] : viewer.streams) sum += stream.text.size();
    return sum;
}

inline std::optional<wire::Bytes> RelayModel::fetch(ModelledViewer& viewer, std::uint64_t id,
                                                    const wire::NextIndexReply& index) {
    wire::Bytes packet;
    const auto size = static_cast<std::uint32_t>(index.entry.packet_size / 8);
    while (packet.size() < size) {
        const auto done = static_cast<std::uint32_t>(packet.size());
        // The packet is read in pieces, as by viewers with small buffers.
        const std::uint32_t piece = std::min<std::uint32_t>(size - done, 50'000);
        wire::Bytes head;
        if (!ask(viewer, live_request(LiveCommand::kGetPacket, wire::GetPacket{id, index.entry.offset + done, piece}),
                 wire::kSizeOf<wire::PacketReply>, head, "GET_PACKET"))
            return std::nullopt;
        const auto reply = wire::parse<wire::PacketReply>(head);
        const auto status = reply->status;
        if (status == wire::PacketStatus::kError && reply->flags != 0) {
            const std::size_t before = bytes_of_metadata(viewer);
            follow_flags(viewer, id, reply->flags);
            if (is_good() && bytes_of_metadata(viewer) == before)
                violate("viewer", "viewer {}: GET_PACKET of stream {}: the metadata that it needs does not come",
                        viewer.id, id);
            if (!is_good()) return std::nullopt;
            continue;
        }
        if (status != wire::PacketStatus::kOk || reply->length == 0 || reply->length > piece) {
            // A chunk that was cleared in the meantime is gone.
            if (viewer.streams[id].part->is_rotated) return std::nullopt;
            violate("viewer", "viewer {}: GET_PACKET of stream {}, {} bytes at {}: status {}", viewer.id, id, piece,
                    index.entry.offset + done, reply->status);
            return std::nullopt;
        }
        wire::Bytes bytes;
        if (viewer.peer.receive(reply->length, bytes) != ModelPeer::Outcome::kDone) {
            if (check_alive()) violate("viewer", "viewer {}: a packet ends early", viewer.id);
            return std::nullopt;
        }
        packet.insert(packet.end(), bytes.begin(), bytes.end());
    }
    return packet;
}

// A packet must have been sent, must come once and in order, not older than what was told, and after its metadata.
inline void RelayModel::see_packet(ModelledViewer& viewer, std::uint64_t id, const wire::NextIndexReply& index,
                                   const wire::Bytes& bytes) {
    ModelledViewer::Stream& told = viewer.streams[id];
    const auto tag = packet_tag(bytes);
    const auto where = fmt::format("viewer {}: stream {} ({} {})", viewer.id, id, told.path, told.channel);
    if (!tag || !is_whole(bytes, *tag)) return violate("visible", "{}: the bytes are not those of a packet", where);
    ModelledStream* const stream = stream_of(tag->stream);
    if (stream == nullptr || stream->part != told.part || !stream->has_path(told.path) ||
        stream->channel != told.channel || (told.stream != nullptr && told.stream != stream))
        return violate("visible", "{}: a packet of stream {}", where, tag->stream);
    told.stream = stream;
    const auto found = stream->packets.find(tag->number);
    if (found == stream->packets.end()) return violate("visible", "{}: packet {} was never sent", where, tag->number);
    const ModelledPacket& packet = found->second;
    if (!told.seen.empty() && *told.seen.rbegin() >= tag->number)
        return violate("visible", "{}: packet {} after {}", where, tag->number, *told.seen.rbegin());
    told.seen.insert(tag->number);
    ++counts_.viewed;
    if (index.entry.timestamp_begin != packet.begin || index.entry.timestamp_end != packet.end ||
        index.entry.stream_class_id != 7)
        return violate("visible", "{}: packet {} has another's index", where, tag->number);
    if (packet.begin < told.told)
        return violate("time", "{}: packet {} from {}, and {} was told before", where, tag->number, packet.begin,
                       told.told);
    told.told = packet.end;
    const ModelledStream* const metadata = stream_of(packet.metadata);
    if (metadata == nullptr || metadata->may_be_gone || stream->rotations != 0) return;
    for (const auto& [other_id, other] : viewer.streams) {
        if (!other.is_metadata || other.trace != told.trace) continue;
        const std::size_t units = other.last_metadata == packet.metadata ? other.last_units : 0;
        if (units < packet.units)
            return violate("metadata", "{}: packet {} needs {} units of metadata, {} are there", where, tag->number,
                           packet.units, units);
    }
}

inline void RelayModel::see_beacon(ModelledViewer& viewer, std::uint64_t id, std::uint64_t time) {
    ModelledViewer::Stream& told = viewer.streams[id];
    if (time < told.told)
        return violate("time", "viewer {}: stream {}: nothing before {}, and {} was told before", viewer.id, id, time,
                       told.told);
    told.told = time;
}

// Everything that was complete must have been told before the end.
inline void RelayModel::see_end(ModelledViewer& viewer, std::uint64_t id) {
    ModelledViewer::Stream& told = viewer.streams[id];
    told.has_ended = true;
    if (!told.is_from_start || told.stream == nullptr) return;
    const ModelledStream& stream = *told.stream;
    if (!stream.is_closed) return violate("viewer", "viewer {}: stream {} has not ended", viewer.id, id);
    if (stream.is_loose || stream.is_limited() || stream.packets.empty()) return;
    // A packet is not told if the metadata that it needs was cleared.
    if (!cleared_metadata(*stream.part, stream.path).empty()) return;
    // From chunks that were left before it came, or long ago, a viewer gets only what it has read until then.
    const auto is_due = [&](const ModelledPacket& packet) {
        return packet.is_stored && packet.chunk != kNoChunk && packet.chunk >= told.first_chunk &&
               packet.chunk + kFormerChunks >= stream.last_chunk &&
               !stream.part->recording->deleted.contains(packet.chunk);
    };
    for (const auto& [number, packet] : stream.packets)
        if (is_due(packet) && !told.seen.contains(number))
            return violate("visible", "viewer {}: stream {} ({} {}) has ended, and packet {} was not told", viewer.id,
                           id, told.path, told.channel, number);
}

inline std::vector<const ModelledStream*> RelayModel::cleared_metadata(const ModelledPart& part,
                                                                       const std::string& path) {
    // Out of every chunk, the text lies where it was.
    const auto last_chunk = [](const ModelledStream& stream) {
        const auto last = std::find_if(stream.generations.rbegin(), stream.generations.rend(),
                                       [](const auto& generation) { return generation.chunk != kNoChunk; });
        return last == stream.generations.rend() ? kNoChunk : last->chunk;
    };
    std::vector<const ModelledStream*> cleared;
    for (const ModelledStream* stream : streams_of(part))
        if (stream->is_metadata && stream->path == path &&
            stream->part->recording->deleted.contains(last_chunk(*stream)))
            cleared.push_back(stream);
    return cleared;
}

inline void RelayModel::read_metadata(ModelledViewer& viewer, ModelledViewer::Stream& stream, std::uint64_t id) {
    while (is_good()) {
        wire::Bytes head;
        if (!ask(viewer, live_request(LiveCommand::kGetMetadata, wire::LiveIdRequest{id}),
                 wire::kSizeOf<wire::MetadataReply>, head, "GET_METADATA"))
            return;
        const auto reply = wire::parse<wire::MetadataReply>(head);
        const auto status = reply->status;
        if (status == wire::MetadataStatus::kOk && reply->length == 0)
            return violate("metadata", "viewer {}: GET_METADATA: nothing, and well done", viewer.id);
        const bool may_end = stream.part->is_over ||
                             std::ranges::any_of(cleared_metadata(*stream.part, stream.path),
                                                 [](const ModelledStream* cleared) { return cleared->is_closed; });
        if (status == wire::MetadataStatus::kError && !may_end)
            return violate("metadata", "viewer {}: GET_METADATA of stream {}: an error", viewer.id, id);
        if (status != wire::MetadataStatus::kOk) break;
        wire::Bytes bytes;
        if (viewer.peer.receive(static_cast<std::size_t>(reply->length), bytes) != ModelPeer::Outcome::kDone) {
            if (check_alive()) violate("metadata", "viewer {}: metadata ends early", viewer.id);
            return;
        }
        // Instead of a text that will not come.
        constexpr std::string_view kNothing = "/* CTF 1.8 */";
        const bool declares_nothing =
            bytes.size() >= kNothing.size() && std::memcmp(bytes.data(), kNothing.data(), kNothing.size()) == 0;
        if (!declares_nothing) {
            stream.text.insert(stream.text.end(), bytes.begin(), bytes.end());
        } else if (!stream.text.empty()) {
            return violate("metadata", "viewer {}: stream {}: it has text, and is told that there is none", viewer.id,
                           id);
        }
    }
    const UnitsFound found = find_units(stream.text);
    if (found.is_damaged || found.rest != 0)
        return violate("metadata", "viewer {}: stream {}: {} whole units, and then {} bytes", viewer.id, id,
                       found.units.size(), found.rest);
    std::size_t first = 0;
    for (std::size_t i = 0; i < found.units.size(); ++i) {
        const ModelledStream* const sent = stream_of(found.units[i].stream);
        if (sent == nullptr || sent->part != stream.part || !sent->has_path(stream.path))
            return violate("metadata", "viewer {}: stream {}: metadata of another trace", viewer.id, id);
        // Metadata that was closed and opened again begins anew.
        if (i > 0 && found.units[i].stream != found.units[i - 1].stream) first = i;
        if (found.units[i].number != i - first)
            return violate("metadata", "viewer {}: stream {}: unit {} in the place of {}", viewer.id, id,
                           found.units[i].number, i - first);
    }
    counts_.units += found.units.size() - stream.units;
    stream.units = found.units.size();
    if (found.units.empty()) return;
    stream.last_metadata = found.units.back().stream;
    stream.last_units = found.units.size() - first;
}

// News ----------------------------------------------------------------------------------------------------------------

// The answer comes when there is news. Until then this viewer waits, and the others do not.
inline void RelayModel::ask_for_news(ModelledViewer& viewer) {
    if (viewer.waits_for_news || !viewer.peer.is_open() || viewer.attached.empty()) return;
    tell("viewer {} asks for news", viewer.id);
    const auto outcome = viewer.peer.send(live_request(LiveCommand::kGetNews, wire::GetNews{100'000}));
    viewer.waits_for_news = outcome == ModelPeer::Outcome::kDone;
}

inline void RelayModel::take_news(ModelledViewer& viewer) {
    if (!viewer.waits_for_news || !viewer.peer.has_input()) return;
    viewer.waits_for_news = false;
    tell("viewer {} hears news", viewer.id);
    wire::Bytes head;
    if (!ask(viewer, {}, wire::kSizeOf<wire::NewsReply>, head, "GET_NEWS")) return;
    const auto news = wire::parse<wire::NewsReply>(head);
    if (news->status != wire::NewsStatus::kOk || news->entries > wire::kMaxNewsEntries)
        return violate("viewer", "viewer {}: GET_NEWS: status {}, {} entries", viewer.id, news->status, news->entries);
    struct Entry {
        wire::NewsEntry head;
        wire::Bytes packet;
    };
    std::vector<Entry> entries;
    for (std::uint32_t i = 0; i < news->entries; ++i) {
        wire::Bytes bytes;
        Entry entry;
        if (!ask(viewer, {}, wire::kSizeOf<wire::NewsEntry>, bytes, "GET_NEWS")) return;
        entry.head = *wire::parse<wire::NewsEntry>(bytes);
        if (!ask(viewer, {}, entry.head.length, entry.packet, "GET_NEWS")) return;
        entries.push_back(std::move(entry));
    }
    const auto attached = viewer.attached;
    if ((news->flags & wire::kNewStreams) != 0)
        for (const auto& [session, part] : attached) look_for_streams(viewer, *part);
    for (Entry& entry : entries) {
        const std::uint64_t id = entry.head.stream_id;
        if (!is_good()) return;
        if (!viewer.streams.contains(id))
            return violate("viewer", "viewer {}: news of stream {}, which it does not know", viewer.id, id);
        const auto status = entry.head.index.status;
        follow_flags(viewer, id, entry.head.index.flags & wire::kNewMetadata);
        if (status == wire::IndexStatus::kInactive) see_beacon(viewer, id, entry.head.index.entry.timestamp_end);
        if (status == wire::IndexStatus::kHangUp) see_end(viewer, id);
        if (status == wire::IndexStatus::kError || status == wire::IndexStatus::kRetry)
            return violate("viewer", "viewer {}: news of stream {}: status {}", viewer.id, id, entry.head.index.status);
        if (status != wire::IndexStatus::kOk) continue;
        if (entry.head.length == 0) {
            auto packet = fetch(viewer, id, entry.head.index);
            if (!packet) return;
            entry.packet = *std::move(packet);
        }
        see_packet(viewer, id, entry.head.index, entry.packet);
    }
}

inline void RelayModel::detach(ModelledViewer& viewer, ModelledPart& part) {
    if (viewer.waits_for_news || !viewer.attached.contains(part.session)) return;
    tell("viewer {} leaves part {}", viewer.id, part.id);
    wire::Bytes reply;
    if (!ask(viewer, live_request(LiveCommand::kDetachSession, wire::LiveIdRequest{part.session}), 4, reply,
             "DETACH_SESSION"))
        return;
    viewer.attached.erase(part.session);
    std::erase_if(viewer.streams, [&](const auto& entry) {
        if (entry.second.part == &part) viewer.told_streams.erase(entry.first);
        return entry.second.part == &part;
    });
}

}  // namespace leat::test
