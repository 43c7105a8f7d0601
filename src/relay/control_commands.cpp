#include "relay/control_commands.hpp"

#include <algorithm>
#include <array>
#include <chrono>

namespace leat::relay {
namespace {

using wire::RelayCode;
using wire::RelayCommand;

constexpr std::size_t kMaxStreams = 4096;  // in a session

std::uint32_t code(RelayCode code) { return static_cast<std::uint32_t>(code); }

Time now() { return std::chrono::steady_clock::now(); }

CommandOutcome replied(RelayCode with) { return {.reply = wire::encode(wire::CodeReply{code(with)})}; }

// LTTng's producers take every error for the end, and so does its relay.
CommandOutcome failed(RelayCode with, Error error) {
    return {.reply = wire::encode(wire::CodeReply{code(with)}), .error = std::move(error), .ends_connection = true};
}

CommandOutcome disconnected(Error error) { return {.error = std::move(error), .ends_connection = true}; }

// The message, or out with the peer that sent rubbish.
#define LEAT_PARSE(Message)                                                              \
    const auto parsed = wire::parse<wire::Message>(payload, producer.minor.value_or(0)); \
    if (!parsed) return disconnected(parsed.error());                                    \
    const wire::Message& message = *parsed

CommandOutcome version(Producer& producer, UntrustedBytes payload) {
    LEAT_PARSE(Version);
    CommandOutcome outcome{.reply = wire::encode(wire::Version{})};
    if (message.major != wire::kProtocolMajor) {
        outcome.error = Error{ErrorKind::kUnsupported, fmt::format("it speaks protocol {}.{}; 2 is what we speak",
                                                                   message.major, message.minor)};
        outcome.ends_connection = true;
    }
    producer.minor = std::min(message.minor, wire::kProtocolMinor);
    return outcome;
}

CommandOutcome get_configuration(Producer& producer, UntrustedBytes payload) {
    LEAT_PARSE(GetConfiguration);
    if ((message.query_flags & ~wire::kQueryDatagrams) != 0)
        return {.reply = wire::encode(wire::ConfigurationReply{code(RelayCode::kProtocolError), 0})};
    producer.can_send_datagrams = message.query_flags != 0;
    return {.reply = wire::encode(
                wire::ConfigurationReply{code(RelayCode::kOk), wire::kClearAllowed | message.query_flags})};
}

CommandOutcome create_session(Producer& producer, UntrustedBytes payload) {
    if (producer.session != nullptr) return disconnected({ErrorKind::kRefused, "it creates a second session"});
    LEAT_PARSE(CreateSession);
    auto session = producer.relay->create_session(message, *producer.minor);
    if (!session)
        return {.reply = wire::encode(wire::CreateSessionReply{.code = code(RelayCode::kFatal)}, *producer.minor),
                .error = session.error()};
    producer.session = *session;
    const Session::Description& description = producer.session->description();
    producer.session->locked([&](SessionState& state) {
        state.thread = producer.thread;
        if (*producer.minor < 11) state.chunk = description.directory->implicit_chunk();
    });
    const wire::CreateSessionReply reply{description.id, code(RelayCode::kOk), description.directory->path()};
    return {.reply = wire::encode(reply, *producer.minor)};
}

Result<std::uint64_t> add_data_stream(Producer& producer, SessionState& state, const wire::AddStream& message,
                                      const std::string& path, const std::shared_ptr<TraceChunk>& chunk) {
    const std::string name = LEAT_TRY(parse_name(message.channel_name));
    if (name.starts_with('.')) return refused("the channel name begins with a dot");
    for (const auto& [handle, entry] : state.streams) {
        const StreamParameters& known = entry.stream->parameters();
        if (!entry.stream->is_finished() && known.path == path && known.channel_name == name)
            return refused("stream {}/{} exists already", path, name);
    }
    auto& trace = state.traces[path];
    if (trace == nullptr) trace = std::make_shared<Trace>(Trace{.id = producer.relay->next_trace_id(), .path = path});
    const std::uint64_t handle = producer.relay->next_handle();
    const auto& request = producer.session->description().request;
    StreamParameters parameters{.handle = handle,
                                .channel_name = name,
                                .path = path,
                                .tracefile_size = message.tracefile_size,
                                .tracefile_count = message.tracefile_count,
                                .has_indexes = !request.is_snapshot && *producer.minor >= 4,
                                .index_minor = *producer.minor >= 8 ? ctf::kIndexMinor : 0,
                                .transport = producer.can_send_datagrams ? PairingTable::Transport::kDatagrams
                                                                         : PairingTable::Transport::kStream};
    auto stream = std::make_shared<DataStream>(std::move(parameters), producer.session->description().directory, chunk);
    state.streams.emplace(handle, SessionStream{std::move(stream), trace});
    return handle;
}

Result<std::uint64_t> add_metadata_stream(Producer& producer, SessionState& state, const std::string& path,
                                          const std::shared_ptr<TraceChunk>& chunk) {
    auto& trace = state.traces[path];
    if (trace == nullptr) trace = std::make_shared<Trace>(Trace{.id = producer.relay->next_trace_id(), .path = path});
    if (trace->metadata != nullptr && !trace->metadata->is_finished()) return refused("{} has metadata already", path);
    const std::uint64_t handle = producer.relay->next_handle();
    trace->metadata = LEAT_TRY(MetadataStream::create(handle, path, producer.session->description().directory, chunk));
    state.metadata[handle] = trace;
    return handle;
}

Result<std::uint64_t> add_stream_to(Producer& producer, SessionState& state, const wire::AddStream& message) {
    auto path = parse_path(message.path);
    if (!path) return wrap("the stream's path", std::move(path).error());
    if (path->empty()) return refused("the stream has no path");
    if (state.streams.size() >= kMaxStreams) return refused("the session has {} streams already", kMaxStreams);
    std::shared_ptr<TraceChunk> chunk = state.chunk;
    if (*producer.minor >= 11) chunk = producer.session->directory().find(message.trace_chunk_id);
    if (chunk == nullptr) return not_found("there is no trace chunk {}", message.trace_chunk_id);
    if (message.channel_name == "metadata") return add_metadata_stream(producer, state, *path, chunk);
    return add_data_stream(producer, state, message, *path, chunk);
}

CommandOutcome add_stream(Producer& producer, UntrustedBytes payload) {
    LEAT_PARSE(AddStream);
    const auto handle =
        producer.session->locked([&](SessionState& state) { return add_stream_to(producer, state, message); });
    if (!handle)
        return {.reply = wire::encode(wire::AddStreamReply{0, code(RelayCode::kUnknownError)}),
                .error = handle.error()};
    producer.relay->add_handle(*handle, producer.session);
    return {.reply = wire::encode(wire::AddStreamReply{*handle, code(RelayCode::kOk)})};
}

CommandOutcome streams_sent(Producer& producer, UntrustedBytes /*payload*/) {
    producer.session->locked([](SessionState& state) {
        for (auto& [handle, entry] : state.streams) entry.is_published = true;
        for (auto& [handle, trace] : state.metadata) trace->is_metadata_published = true;
        ++state.publications;
    });
    CommandOutcome outcome = replied(RelayCode::kOk);
    outcome.is_change = true;
    return outcome;
}

CommandOutcome send_index(Producer& producer, UntrustedBytes payload) {
    LEAT_PARSE(SendIndex);
    bool is_change = false;
    bool must_wait = false;
    const auto added = producer.session->locked([&](SessionState& state) -> Result<void> {
        const auto found = state.streams.find(message.stream_id);
        if (found == state.streams.end()) return not_found("SEND_INDEX: there is no stream {}", message.stream_id);
        const auto& stream = found->second.stream;
        const std::uint64_t changes = stream->changes();
        if (message.is_beacon()) {
            stream->add_beacon(message);
        } else if (!stream->pairs().has_room_for_index(message.net_seq_num)) {
            must_wait = true;
        } else {
            LEAT_TRY(stream->add_index(message, now()));
            LEAT_TRY(stream->commit(now()));
            note_commit(state, stream);
            if (stream->should_finish()) stream->finish();
        }
        is_change = stream->changes() != changes;
        return {};
    });
    if (!added) return failed(RelayCode::kUnknownError, added.error());
    if (must_wait) return {.must_wait = true};
    CommandOutcome outcome = replied(RelayCode::kOk);
    outcome.is_change = is_change;
    outcome.packet_size = message.packet_size / 8;
    return outcome;
}

CommandOutcome close_stream(Producer& producer, UntrustedBytes payload) {
    LEAT_PARSE(CloseStream);
    const bool is_known = producer.session->locked([&](SessionState& state) {
        if (const auto found = state.streams.find(message.stream_id); found != state.streams.end()) {
            DataStream& stream = *found->second.stream;
            stream.close_after(message.last_net_seq_num);
            if (stream.should_finish()) stream.finish();
            return true;
        }
        const auto found = state.metadata.find(message.stream_id);
        if (found == state.metadata.end()) return false;
        found->second->metadata->finish();
        return true;
    });
    if (!is_known)
        return failed(RelayCode::kUnknownError,
                      {ErrorKind::kNotFound, fmt::format("CLOSE_STREAM: there is no stream {}", message.stream_id)});
    CommandOutcome outcome = replied(RelayCode::kOk);
    outcome.is_change = true;
    return outcome;
}

CommandOutcome data_pending(Producer& producer, UntrustedBytes payload) {
    LEAT_PARSE(DataPending);
    constexpr std::uint32_t kUnknownStream = 0xffff'ffff;
    const std::uint32_t answer = producer.session->locked([&](SessionState& state) {
        const auto found = state.streams.find(message.stream_id);
        if (found == state.streams.end()) return kUnknownStream;
        found->second.is_checked = true;
        return found->second.stream->has_stored(message.last_net_seq_num) ? code(RelayCode::kNotPending)
                                                                          : code(RelayCode::kPending);
    });
    return {.reply = wire::encode(wire::CodeReply{answer})};
}

CommandOutcome quiescent_control(Producer& producer, UntrustedBytes payload) {
    LEAT_PARSE(IdRequest);
    static_cast<void>(message);  // metadata is stored by the time that this command is read
    return replied(RelayCode::kOk);
}

CommandOutcome begin_data_pending(Producer& producer, UntrustedBytes payload) {
    LEAT_PARSE(IdRequest);
    static_cast<void>(message);
    producer.session->locked([](SessionState& state) {
        for (auto& [handle, entry] : state.streams) entry.is_checked = false;
    });
    return replied(RelayCode::kOk);
}

CommandOutcome end_data_pending(Producer& producer, UntrustedBytes payload) {
    LEAT_PARSE(IdRequest);
    static_cast<void>(message);
    const bool is_pending = producer.session->locked([](SessionState& state) {
        return std::ranges::any_of(state.streams, [](const auto& entry) {
            return !entry.second.is_checked && entry.second.stream->waits_for_data();
        });
    });
    return replied(is_pending ? RelayCode::kPending : RelayCode::kNotPending);
}

CommandOutcome reset_metadata(Producer& producer, UntrustedBytes payload) {
    LEAT_PARSE(ResetMetadata);
    if (producer.session->is_live())
        return failed(RelayCode::kUnknownError,
                      {ErrorKind::kRefused, "RESET_METADATA: a live session keeps its metadata"});
    const auto reset = producer.session->locked([&](SessionState& state) -> Result<void> {
        const auto found = state.metadata.find(message.stream_id);
        if (found == state.metadata.end()) return not_found("RESET_METADATA: there is no stream {}", message.stream_id);
        return found->second->metadata->reset();
    });
    return reset ? replied(RelayCode::kOk) : failed(RelayCode::kUnknownError, reset.error());
}

Result<void> rotate(SessionState& state, const wire::RotateStreams::Position& position,
                    const std::shared_ptr<TraceChunk>& chunk) {
    if (const auto found = state.streams.find(position.stream_id); found != state.streams.end())
        return found->second.stream->rotate(chunk, position.rotate_at);
    const auto found = state.metadata.find(position.stream_id);
    if (found == state.metadata.end()) return not_found("ROTATE_STREAMS: there is no stream {}", position.stream_id);
    return found->second->metadata->rotate(chunk);
}

CommandOutcome rotate_streams(Producer& producer, UntrustedBytes payload) {
    LEAT_PARSE(RotateStreams);
    std::shared_ptr<TraceChunk> chunk;
    if (message.new_chunk_id) {
        chunk = producer.session->directory().find(*message.new_chunk_id);
        if (chunk == nullptr)
            return failed(RelayCode::kProtocolError,
                          {ErrorKind::kNotFound,
                           fmt::format("ROTATE_STREAMS: there is no trace chunk {}", *message.new_chunk_id)});
    }
    const auto rotated = producer.session->locked([&](SessionState& state) -> Result<void> {
        for (const auto& position : message.positions) LEAT_TRY(rotate(state, position, chunk));
        return {};
    });
    if (!rotated) return failed(RelayCode::kInvalid, rotated.error());
    CommandOutcome outcome = replied(RelayCode::kOk);
    outcome.is_change = true;
    return outcome;
}

CommandOutcome create_trace_chunk(Producer& producer, UntrustedBytes payload) {
    LEAT_PARSE(CreateTraceChunk);
    auto chunk = producer.session->directory().create_chunk(message);
    if (!chunk)
        return failed(chunk.error().kind == ErrorKind::kUnsupported ? RelayCode::kProtocolError : RelayCode::kInvalid,
                      chunk.error());
    producer.session->locked([&](SessionState& state) { state.chunk = *chunk; });
    return replied(RelayCode::kOk);
}

CommandOutcome close_trace_chunk(Producer& producer, UntrustedBytes payload) {
    LEAT_PARSE(CloseTraceChunk);
    const auto path = producer.session->directory().close_chunk(message);
    if (!path)
        return {.reply = wire::encode(wire::CloseTraceChunkReply{code(RelayCode::kNoMemory), ""}),
                .error = path.error(),
                .ends_connection = true};
    return {.reply = wire::encode(wire::CloseTraceChunkReply{code(RelayCode::kOk), *path}), .is_change = true};
}

CommandOutcome trace_chunk_exists(Producer& producer, UntrustedBytes payload) {
    LEAT_PARSE(TraceChunkExists);
    const bool exists = producer.session->directory().is_open(message.chunk_id);
    return {.reply = wire::encode(
                wire::TraceChunkExistsReply{code(RelayCode::kOk), static_cast<std::uint8_t>(exists ? 1 : 0)})};
}

CommandOutcome start_data(Producer& /*producer*/, UntrustedBytes /*payload*/) { return replied(RelayCode::kOk); }

#undef LEAT_PARSE

struct Command {
    RelayCommand command;
    enum class Needs : std::uint8_t { kNothing, kVersion, kSession } needs;
    std::uint64_t max_payload;  // bytes
    CommandOutcome (*run)(Producer&, UntrustedBytes);
};

using Needs = Command::Needs;
constexpr std::uint64_t kSmall = 1024;

constexpr std::array kCommands{
    Command{RelayCommand::kVersion, Needs::kNothing, kSmall, version},
    Command{RelayCommand::kGetConfiguration, Needs::kVersion, kSmall, get_configuration},
    Command{RelayCommand::kCreateSession, Needs::kVersion, 8192, create_session},
    Command{RelayCommand::kStartData, Needs::kVersion, kSmall, start_data},
    Command{RelayCommand::kCreateTraceChunk, Needs::kSession, 8192, create_trace_chunk},
    Command{RelayCommand::kAddStream, Needs::kSession, 8192, add_stream},
    Command{RelayCommand::kStreamsSent, Needs::kSession, kSmall, streams_sent},
    Command{RelayCommand::kSendIndex, Needs::kSession, kSmall, send_index},
    Command{RelayCommand::kDataPending, Needs::kSession, kSmall, data_pending},
    Command{RelayCommand::kQuiescentControl, Needs::kSession, kSmall, quiescent_control},
    Command{RelayCommand::kBeginDataPending, Needs::kSession, kSmall, begin_data_pending},
    Command{RelayCommand::kEndDataPending, Needs::kSession, kSmall, end_data_pending},
    Command{RelayCommand::kResetMetadata, Needs::kSession, kSmall, reset_metadata},
    Command{RelayCommand::kRotateStreams, Needs::kSession, 32 + 16 * kMaxStreams, rotate_streams},
    Command{RelayCommand::kCloseTraceChunk, Needs::kSession, kSmall, close_trace_chunk},
    Command{RelayCommand::kTraceChunkExists, Needs::kSession, kSmall, trace_chunk_exists},
    Command{RelayCommand::kCloseStream, Needs::kSession, kSmall, close_stream},
};

const Command* find_command(RelayCommand command) {
    const auto* const found = std::ranges::find(kCommands, command, &Command::command);
    return found == kCommands.end() ? nullptr : found;
}

}  // namespace

std::uint64_t max_payload(RelayCommand command) {
    const Command* const found = find_command(command);
    return found == nullptr ? kSmall : found->max_payload;
}

CommandOutcome run_command(Producer& producer, RelayCommand command, UntrustedBytes payload) {
    const Command* const found = find_command(command);
    if (found == nullptr)
        return failed(RelayCode::kUnknownError, {ErrorKind::kUnsupported, wire::name_of(command) + " is not served"});
    if (found->needs != Needs::kNothing && !producer.minor)
        return disconnected({ErrorKind::kRefused, wire::name_of(command) + " before VERSION"});
    if (found->needs == Needs::kSession && producer.session == nullptr)
        return disconnected({ErrorKind::kRefused, wire::name_of(command) + " before CREATE_SESSION"});
    return found->run(producer, payload);
}

void end_producer(Producer& producer) {
    if (producer.session == nullptr) return;
    producer.relay->remove_session(*producer.session);
    producer.session->locked([](SessionState& state) {
        state.is_control_open = false;
        state.control_end = now();
        for (auto& [handle, entry] : state.streams) entry.stream->end_indexes();
        commit_all(state, now());
        if (!finish_streams(state, now()) && state.hurry_data) state.hurry_data();
    });
    producer.session->directory().finish_all();
    producer.session->note_change();
}

}  // namespace leat::relay
