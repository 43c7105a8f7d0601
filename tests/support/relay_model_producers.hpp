// The steps of producers: see relay_model.hpp.
#pragma once

#include "support/relay_model.hpp"

namespace leat::test {

using wire::RelayCommand;

// Connections ---------------------------------------------------------------------------------------------------------

// Returns false if the connection or the relay is gone.
inline bool RelayModel::hear(ModelledPart& part, ModelPeer::Outcome outcome, const std::string& what) {
    if (outcome == ModelPeer::Outcome::kDone) return true;
    if (!check_alive()) return false;
    if (outcome == ModelPeer::Outcome::kSilent) {
        violate("answer", "part {}: {}: no answer within {} s", part.id, what, ModelPeer::kPatience.count());
        return false;
    }
    // The relay may just be dying by itself. Then that is the violation.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // moment: it fails anyway; of what?
    if (!check_alive()) return false;
    if (!part.is_loose)
        violate(was_disk_full_ ? "full-disk" : "refused", "part {}: {}: the relay closed the connection", part.id,
                what);
    lose(part);
    return false;
}

inline void RelayModel::lose(ModelledPart& part) {
    part.control.cut(false);
    part.data.cut(false);
    part.control_rest.clear();
    part.data_rest.clear();
    part.is_over = true;
    for (ModelledStream* stream : streams_of(part)) stream->is_closed = true;
}

inline bool RelayModel::request(ModelledPart& part, const wire::Bytes& bytes, std::size_t reply_size,
                                wire::Bytes& reply, const std::string& what) {
    if (part.is_over || !is_good()) return false;
    if (part.is_held()) resume_control(part);
    return hear(part, part.control.send(bytes), what) && hear(part, part.control.receive(reply_size, reply), what);
}

inline std::optional<wire::RelayCode> RelayModel::request_code(ModelledPart& part, const wire::Bytes& bytes,
                                                               const std::string& what) {
    wire::Bytes reply;
    if (!request(part, bytes, 4, reply, what)) return std::nullopt;
    const wire::RelayCode code = wire::parse<wire::CodeReply>(reply)->code;
    if (code != wire::RelayCode::kOk && code > wire::RelayCode::kPending && !part.is_loose)
        violate(was_disk_full_ ? "full-disk" : "refused", "part {}: {}: code {}", part.id, what, code);
    return code;
}

inline bool RelayModel::open_data(ModelledPart& part) {
    if (part.data.is_open()) return true;
    if (part.has_had_data || !is_running_) return false;
    part.data.connect(ports_.data, [this] { empty_disk(); });
    part.has_had_data = part.data.is_open();
    return part.has_had_data;
}

// Packets whose halves were both sent will be stored, because these connections end normally.
inline void RelayModel::note_sent_is_due(ModelledPart& part) {
    if (part.is_loose) return;
    for (ModelledStream* stream : streams_of(part)) {
        for (auto& [number, packet] : stream->packets)
            if (!stream->is_loose && packet.has_data && (packet.has_index || part.is_snapshot)) packet.is_due = true;
        if (!stream->generations.empty()) stream->generations.back().due = stream->generations.back().sent;
    }
}

// The relay has nothing more to do for this part.
inline void RelayModel::settle(ModelledPart& part) {
    part.is_settled = true;
    for (ModelledStream* stream : streams_of(part)) {
        for (auto& [number, packet] : stream->packets) packet.is_stored = packet.is_stored || packet.is_due;
        for (auto& generation : stream->generations) generation.stored = std::max(generation.stored, generation.due);
    }
}

inline void RelayModel::note_deleted(ModelledRecording& recording, std::uint64_t chunk) {
    recording.deleted.insert(chunk);
}

// Sessions ------------------------------------------------------------------------------------------------------------

inline ModelledPart* RelayModel::begin_part(const NewPart& wanted) {
    if (!is_running_ || !is_good()) return nullptr;
    wire::CreateSession create{.session_name = wanted.name,
                               .hostname = wanted.host,
                               .live_timer_us = wanted.is_live ? 200'000U : 0,
                               .is_snapshot = wanted.is_snapshot,
                               .base_path = wanted.base,
                               .sessiond_uuid = {wanted.daemon},
                               .sessiond_session_id = wanted.session_id,
                               .creation_time = 1'767'225'600};
    ModelledRecording* recording = wanted.of;
    if (recording != nullptr) {
        create = recording->request;
        create.live_timer_us = wanted.is_live ? 200'000U : 0;
        create.is_snapshot = wanted.is_snapshot;
    }
    ModelledPart& part = parts_.emplace_back();
    part.id = parts_.size();
    part.minor = wanted.minor;
    part.is_live = wanted.is_live;
    part.is_snapshot = wanted.is_snapshot;
    part.is_loose = !wanted.must_succeed;
    part.control.connect(ports_.control, [this] { empty_disk(); });
    tell("part {} begins: 2.{} host \"{}\" name \"{}\" base \"{}\" daemon {} session {}{}{}{}", part.id, part.minor,
         create.hostname, create.session_name, create.base_path, create.sessiond_uuid[0], create.sessiond_session_id,
         part.is_live ? " live" : "", part.is_snapshot ? " snapshot" : "",
         recording != nullptr ? fmt::format(", of recording {}", recording->id) : "");
    wire::Bytes reply;
    const wire::Version version{.minor = part.minor};
    if (!request(part, wire::encode_request(RelayCommand::kVersion, version), 8, reply, "VERSION")) return nullptr;
    if (part.minor >= 12) {
        const wire::GetConfiguration query{wanted.asks_for_datagrams ? wire::kQueryDatagrams : 0};
        if (!request(part, wire::encode_request(RelayCommand::kGetConfiguration, query), 12, reply,
                     "GET_CONFIGURATION"))
            return nullptr;
        const auto answer = wire::parse<wire::ConfigurationReply>(reply);
        part.has_datagrams = (answer->flags & wire::kQueryDatagrams) != 0;
    }
    if (recording != nullptr && part.has_chunks() && recording->chunk != kNoChunk && part.id % 2 == 0)
        create.current_chunk_id = recording->chunk;
    const std::size_t head = part.has_chunks() ? wire::kHeadSizeOf<wire::CreateSessionReply> : 12;
    const wire::Bytes bytes = wire::encode_request(RelayCommand::kCreateSession, create, part.minor);
    if (!request(part, bytes, head, reply, "CREATE_SESSION")) return nullptr;
    std::size_t length = 0;
    if (part.has_chunks())
        length = (std::to_integer<std::size_t>(reply[14]) << 8) + std::to_integer<std::size_t>(reply[15]);
    wire::Bytes path;
    if (!hear(part, part.control.receive(length, path), "CREATE_SESSION")) return nullptr;
    reply.insert(reply.end(), path.begin(), path.end());
    const auto answer = wire::parse<wire::CreateSessionReply>(reply, part.minor);
    if (!answer || (answer->code != wire::RelayCode::kOk && wanted.must_succeed))
        violate("refused", "part {}: CREATE_SESSION: {}", part.id, answer ? answer->code : wire::RelayCode{});
    if (!answer || answer->code != wire::RelayCode::kOk) {
        lose(part);
        return nullptr;
    }
    part.is_loose = false;
    part.session = answer->session_id;
    part.directory = answer->output_path;
    tell("  part {} is session {} in \"{}\"", part.id, part.session, part.directory);
    const bool is_clean = part.directory.find("..") == std::string::npos && !part.directory.starts_with('/');
    if (part.has_chunks() && (part.directory.empty() || !is_clean))
        violate("names", "part {}: its directory is \"{}\"", part.id, part.directory);
    if (recording == nullptr) {
        recording = &recordings_.emplace_back();
        recording->id = recordings_.size();
        recording->request = create;
        recording->request.current_chunk_id.reset();
    }
    part.recording = recording;
    // Two sessions never share a directory. There are three exceptions. The relay may forget what has ended without
    // leaving anything. Snapshots go to the session of the same name and time, each into a chunk of its own. Further
    // parts follow their first one.
    const auto is_there = [&](const ModelledPart& other) {
        if (wanted.of != nullptr || (part.is_snapshot && (other.is_settled || other.is_snapshot))) return false;
        return !other.is_settled || std::ranges::any_of(frozen_, [&](const auto& file) {
            return file.first.rfind(other.directory + "/", 0) == 0;
        });
    };
    for (const ModelledPart& other : parts_)
        if (other.recording != nullptr && other.recording != recording && part.has_chunks() && other.has_chunks() &&
            other.directory == part.directory && is_there(other))
            violate("shared", "part {} is told to use \"{}\", where part {} of another session is", part.id,
                    part.directory, other.id);
    for (const ModelledPart& other : parts_)
        if (&other != &part && other.recording == recording && !other.is_over && other.directory != part.directory)
            violate("parts", "part {} is told to use \"{}\", and part {} of the same session \"{}\"", part.id,
                    part.directory, other.id, other.directory);
    if (!part.has_chunks()) part.chunk = 0;
    return &part;
}

inline bool RelayModel::create_chunk(ModelledPart& part, std::uint64_t id, const std::string& override_name) {
    const wire::CreateTraceChunk message{
        .chunk_id = id, .creation_time = 1'767'225'600 + id, .override_name = override_name};
    tell("part {}: CREATE_TRACE_CHUNK {} \"{}\"", part.id, id, override_name);
    const auto code = request_code(part, wire::encode_request(RelayCommand::kCreateTraceChunk, message),
                                   fmt::format("CREATE_TRACE_CHUNK {}", id));
    if (code != wire::RelayCode::kOk) return false;
    part.chunk = id;
    part.recording->chunk = id;
    part.recording->next_chunk = std::max(part.recording->next_chunk, id + 1);
    return true;
}

inline void RelayModel::close_chunk(ModelledPart& part, std::uint64_t id, std::optional<wire::ChunkCommand> command) {
    wire::CloseTraceChunk message{.chunk_id = id, .close_time = 1'767'225'700 + id};
    message.command = command;
    const std::string what =
        fmt::format("CLOSE_TRACE_CHUNK {} {}", id, message.command ? fmt::format("{}", *message.command) : "-");
    tell("part {}: {}", part.id, what);
    if (command == wire::ChunkCommand::kDelete) note_deleted(*part.recording, id);
    part.recording->closed.insert(id);
    if (part.recording->chunk == id) part.recording->chunk = kNoChunk;
    wire::Bytes reply;
    const auto bytes = wire::encode_request(RelayCommand::kCloseTraceChunk, message);
    if (!request(part, bytes, wire::kHeadSizeOf<wire::CloseTraceChunkReply>, reply, what)) return;
    wire::Bytes path;
    const std::size_t length = (std::to_integer<std::size_t>(reply[6]) << 8) + std::to_integer<std::size_t>(reply[7]);
    if (!hear(part, part.control.receive(length, path), what)) return;
    reply.insert(reply.end(), path.begin(), path.end());
    const auto answer = wire::parse<wire::CloseTraceChunkReply>(reply);
    if (!answer) return violate("answer", "part {}: {}: {}", part.id, what, answer.error().message);
    if (answer->code == wire::RelayCode::kOk && answer->path.empty())
        violate("answer", "part {}: {}: it is well done, without a path", part.id, what);
    if (answer->code == wire::RelayCode::kOk && (answer->path + "/").rfind(part.directory + "/", 0) != 0)
        violate("names", "part {}: {}: path \"{}\" is outside of \"{}\"", part.id, what, answer->path, part.directory);
    if (answer->code != wire::RelayCode::kOk && !part.is_loose)
        violate("refused", "part {}: {}: code {}", part.id, what, answer->code);
}

// Streams -------------------------------------------------------------------------------------------------------------

inline RelayModel::Expect RelayModel::expectation(const ModelledPart& part, const NewStream& wanted) const {
    // Old producers state /HOST/SESSION/ before the path of the trace. A session's directory may be called "index".
    const int first = part.has_chunks() ? 0 : 3;
    std::string_view rest = wanted.path;
    for (int step = 0; !rest.empty(); ++step) {
        const std::string_view name = rest.substr(0, rest.find('/'));
        const bool is_reserved = (step >= first && name == "index") || (step == first && name == "archives");
        if (is_reserved || name.starts_with('.')) return Expect::kRefusal;
        rest.remove_prefix(std::min(rest.size(), name.size() + 1));
    }
    if (wanted.expect != Expect::kOk) return wanted.expect;
    if (part.recording->closed.contains(part.chunk)) return Expect::kEither;  // another part may have closed it
    for (const ModelledStream& other : streams_) {
        // A stream of that name of another part belongs to another trace, which gets a directory of its own.
        if (other.part != &part || other.path != wanted.path || other.channel != wanted.channel) continue;
        // The stream was closed, or still exists.
        return other.is_closed ? Expect::kEither : Expect::kRefusal;
    }
    return Expect::kOk;
}

inline ModelledStream* RelayModel::add_stream(ModelledPart& part, const NewStream& wanted) {
    const Expect expect = expectation(part, wanted);
    const wire::AddStream message{.channel_name = wanted.channel,
                                  .path = wanted.path,
                                  .tracefile_size = wanted.file_size,
                                  .tracefile_count = wanted.file_count,
                                  .trace_chunk_id = part.chunk};
    const std::string what =
        fmt::format("ADD_STREAM {} {}{}", wanted.path, wanted.channel,
                    wanted.file_size == 0 ? "" : fmt::format(" {} x {}", wanted.file_count, wanted.file_size));
    tell("part {}: {}", part.id, what);
    wire::Bytes bytes;
    if (!request(part, wire::encode_request(RelayCommand::kAddStream, message, part.minor), 12, bytes, what))
        return nullptr;
    const auto reply = wire::parse<wire::AddStreamReply>(bytes);
    if (reply->code != wire::RelayCode::kOk && reply->code != wire::RelayCode::kUnknownError)
        violate("answer", "part {}: {}: code {}", part.id, what, reply->code);
    if (reply->code == wire::RelayCode::kUnknownError && expect == Expect::kOk && !part.is_loose)
        violate(was_disk_full_ ? "full-disk" : "refused", "part {}: {}: code 11", part.id, what);
    if (reply->code == wire::RelayCode::kOk && expect == Expect::kRefusal)
        violate("names", "part {}: {}: is accepted", part.id, what);
    if (reply->code != wire::RelayCode::kOk) return nullptr;
    for (ModelledStream& other : streams_)
        if (other.part == &part && other.path == wanted.path && wanted.channel == "metadata" &&
            other.channel == wanted.channel && other.is_closed) {
            other.may_be_gone = true;
            for (auto& generation : other.generations) generation.may_be_gone = true;
        }
    ModelledStream& stream = streams_.emplace_back();
    stream.uid = next_uid_++;
    stream.part = &part;
    stream.path = wanted.path;
    stream.channel = wanted.channel;
    stream.handle = reply->handle;
    stream.file_size = wanted.file_size;
    stream.file_count = wanted.file_count;
    stream.is_metadata = wanted.channel == "metadata";
    stream.is_loose = part.is_loose;
    stream.next_data = stream.next_index = wanted.first_number;
    stream.chunk = stream.last_chunk = part.chunk;
    stream.time = now_;
    if (stream.is_metadata) stream.generations.push_back({.chunk = part.chunk});
    tell("  it is stream {}", stream.uid);
    return &stream;
}

inline void RelayModel::publish_streams(ModelledPart& part) {
    tell("part {}: STREAMS_SENT", part.id);
    if (request_code(part, wire::encode_request(RelayCommand::kStreamsSent), "STREAMS_SENT") != wire::RelayCode::kOk)
        return;
    for (ModelledStream* stream : streams_of(part)) stream->is_published = true;
}

inline std::vector<ModelledStream*> RelayModel::add_trace(ModelledPart& part, const std::string& path,
                                                          unsigned streams) {
    std::vector<ModelledStream*> found;
    for (unsigned i = 0; i < streams; ++i)
        if (ModelledStream* const stream = add_stream(part, {.path = path, .channel = fmt::format("channel0_{}", i)}))
            found.push_back(stream);
    if (ModelledStream* const metadata = add_stream(part, {.path = path, .channel = "metadata"})) {
        found.push_back(metadata);
        send_metadata(*metadata, 1);
    }
    if (!part.is_snapshot) publish_streams(part);
    return found;
}

inline void RelayModel::close_stream(ModelledStream& stream) {
    ModelledPart& part = *stream.part;
    const std::uint64_t last = stream.packets.empty() ? wire::kNoPacket : stream.packets.rbegin()->first;
    tell("part {}: CLOSE_STREAM {} at {}", part.id, stream.uid, static_cast<std::int64_t>(last));
    const wire::CloseStream message{stream.handle, last};
    if (request_code(part, wire::encode_request(RelayCommand::kCloseStream, message), "CLOSE_STREAM") ==
        wire::RelayCode::kOk)
        stream.is_closed = true;
}

}  // namespace leat::test
