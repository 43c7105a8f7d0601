#include "relay/ingest/control_commands.hpp"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <ranges>

#include "relay/local_time.hpp"
#include "trace/stream_paths.hpp"

namespace leat::relay {
namespace {

using wire::RelayCode;
using wire::RelayCommand;

constexpr std::size_t kMaxStreams = 16384;  // that are open, in a session
// Minors of the protocol in which things came.
constexpr std::uint32_t kMinorOfIndexes = 4;
constexpr std::uint32_t kMinorOfLongIndexes = 8;
constexpr std::uint32_t kMinorOfChunks = 11;

CommandOutcome replied(RelayCode with) { return {.reply = wire::encode(wire::CodeReply{with})}; }

// LTTng's producers take every error for the end, and so does its relay.
CommandOutcome failed(RelayCode with, Error error) {
    return {.reply = wire::encode(wire::CodeReply{with}), .error = std::move(error), .ends_connection = true};
}

CommandOutcome disconnected(Error error) { return {.error = std::move(error), .ends_connection = true}; }

// The message, or out with the peer that sent rubbish.
#define LEAT_PARSE(Message)                                                              \
    const auto parsed = wire::parse<wire::Message>(payload, producer.minor.value_or(0)); \
    if (!parsed) return disconnected(parsed.error());                                    \
    const wire::Message& message = *parsed

// The smaller minor counts from here on: it decides how every later message of this connection is laid out.
CommandOutcome version(Producer& producer, UntrustedBytes payload) {
    if (producer.minor) return disconnected({ErrorKind::kRefused, "a second VERSION"});
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

// Queries of later protocols are refused as a whole: a peer that asked for two things must not take an answer to one
// for both.
CommandOutcome get_configuration(Producer& producer, UntrustedBytes payload) {
    LEAT_PARSE(GetConfiguration);
    if ((message.query_flags & ~wire::kQueryDatagrams) != 0)
        return {.reply = wire::encode(wire::ConfigurationReply{RelayCode::kProtocolError, 0})};
    producer.can_send_datagrams = message.query_flags != 0;
    const std::uint64_t clear = producer.relay->policy().is_clear_allowed ? wire::kClearAllowed : 0;
    return {.reply = wire::encode(wire::ConfigurationReply{RelayCode::kOk, clear | message.query_flags})};
}

CommandOutcome create_session(Producer& producer, UntrustedBytes payload) {
    if (producer.session != nullptr) return disconnected({ErrorKind::kRefused, "it creates a second session"});
    LEAT_PARSE(CreateSession);
    auto session = producer.relay->create_session(message, *producer.minor, producer.principal);
    if (!session)
        return {.reply = wire::encode(wire::CreateSessionReply{.code = RelayCode::kFatal}, *producer.minor),
                .error = session.error()};
    producer.session = *session;
    producer.creation_time = static_cast<std::uint64_t>(std::time(nullptr));
    producer.session->locked([&](SessionState& state) { state.thread = producer.thread; });
    const auto directory = producer.session->directory();
    const wire::CreateSessionReply reply{producer.session->description().id, RelayCode::kOk,
                                         directory == nullptr ? std::string() : directory->path()};
    return {.reply = wire::encode(reply, *producer.minor)};
}

// Where a stream goes: its trace, and the path of that in the chunk.
struct StreamPlace {
    std::shared_ptr<SessionDirectory> directory{};
    std::shared_ptr<TraceChunk> chunk{};
    std::string path{};
    std::string trace{};  // the name of the trace in the session: as the peer gave it
};

// Old peers say it from the output directory on: HOST/SESSION/TRACE. The first two are a directory of their session.
Result<StreamPlace> place_of_old(Producer& producer, const std::string& path) {
    constexpr const char* kForm = "the stream's path, {}, is not of the form HOST/SESSION/TRACE";
    constexpr std::size_t kMaxDirectories = 64;
    const std::size_t host_end = path.find('/');
    if (host_end == std::string::npos) return refused(kForm, path);
    const std::size_t end = path.find('/', host_end + 1);
    if (end == std::string::npos) return refused(kForm, path);
    if (path.starts_with('.') || path[host_end + 1] == '.') return refused("the stream's path has a name with a dot");
    StreamPlace place{.path = LEAT_TRY(parse_trace_path(path.substr(end + 1))), .trace = path};
    auto& directories = producer.old_directories;
    const std::string root = path.substr(0, end);
    if (!directories.contains(root)) {
        if (directories.size() == kMaxDirectories) return refused("its streams lie in {} directories", kMaxDirectories);
        directories[root] = LEAT_TRY(producer.relay->directory_of_old(root));
    }
    place.directory = directories[root];
    place.chunk = LEAT_TRY(place.directory->implicit_chunk());
    return place;
}

Result<StreamPlace> place_of(Producer& producer, const wire::AddStream& message) {
    const bool is_old = *producer.minor < kMinorOfChunks;
    auto path = is_old ? parse_path(message.path) : parse_trace_path(message.path);
    if (!path) return wrap("the stream's path", std::move(path).error());
    if (is_old) {
        const wire::CreateSession& request = producer.session->description().request;
        if (producer.relay->policy().grouping == Grouping::kBySession)
            path = grouped_by_session(*path, request.hostname, request.session_name,
                                      local_time_text(producer.creation_time, "%Y%m%d-%H%M%S"));
        return place_of_old(producer, *path);
    }
    StreamPlace place{.directory = producer.session->directory(), .path = *path, .trace = *path};
    place.chunk = place.directory->find(message.trace_chunk_id);
    if (place.chunk == nullptr) return not_found("there is no trace chunk {}", message.trace_chunk_id);
    return place;
}

// Streams and metadata may come in either order, so whichever is first makes the trace, and with it both ids.
std::shared_ptr<Trace> trace_at(Producer& producer, const StreamPlace& place) {
    return producer.session->locked([&](SessionState& state) {
        auto& trace = state.traces[place.trace];
        if (trace == nullptr)
            trace = std::make_shared<Trace>(Trace{.id = producer.relay->next_id(),
                                                  .path = place.trace,
                                                  .directory = place.directory,
                                                  .metadata_id = producer.relay->next_id()});
        return trace;
    });
}

Result<std::uint64_t> add_data_stream(Producer& producer, const wire::AddStream& message, const StreamPlace& place,
                                      StreamQuota::Place quota) {
    const std::string name = LEAT_TRY(parse_name(message.channel_name));
    if (name.starts_with('.')) return refused("the channel name begins with a dot");
    if (name == trace::kIndexDirectory) return refused("\"index\" is a name that only the relay gives");
    if (producer.session->locked([&](const SessionState& state) {
            return state.open_names.contains({place.trace, name});
        }))
        return refused("stream {}/{} exists already", place.trace, name);
    const auto trace = trace_at(producer, place);
    const bool has_indexes = !producer.session->description().request.is_snapshot && *producer.minor >= kMinorOfIndexes;
    const std::uint32_t index_minor = *producer.minor >= kMinorOfLongIndexes ? trace::kIndexMinor : 0;
    const std::uint64_t handle = producer.relay->handles().add(producer.session);
    StreamParameters parameters{.handle = handle,
                                .id = producer.relay->next_id(),
                                .files = {.trace_id = trace->id,
                                          .path = place.path,
                                          .channel_name = name,
                                          .size_limit = message.tracefile_size,
                                          .count_limit = message.tracefile_count,
                                          .index_minor = has_indexes ? std::optional(index_minor) : std::nullopt},
                                .transport = producer.can_send_datagrams ? PairingTable::Transport::kDatagrams
                                                                         : PairingTable::Transport::kStream};
    auto stream = std::make_shared<SessionStream>();
    stream->id = parameters.id;
    stream->stream = std::make_shared<DataStream>(std::move(parameters), place.directory, place.chunk);
    stream->trace = trace;
    stream->place = std::move(quota);
    producer.session->add(std::move(stream));
    if (producer.can_send_datagrams) producer.relay->handles().announce(handle, producer.session);
    return handle;
}

Result<std::uint64_t> add_metadata_stream(Producer& producer, const StreamPlace& place, StreamQuota::Place quota) {
    const auto trace = trace_at(producer, place);
    if (trace->metadata == nullptr) {
        auto created = MetadataStream::create(trace->id, place.path, place.directory, place.chunk);
        if (!created) {
            producer.session->show(trace);  // which is forgotten, if nothing comes of it
            return tl::unexpected(std::move(created).error());
        }
        producer.session->locked([&](SessionState&) { trace->metadata = *std::move(created); });
    } else if (trace->metadata->is_finished()) {
        // For viewers it is the same one that goes on.
        LEAT_TRY(trace->metadata->reopen(place.chunk));
    } else {
        return refused("{} has metadata already", place.trace);
    }
    const std::uint64_t handle = producer.relay->handles().add(producer.session);
    producer.session->locked([&](SessionState& state) {
        state.metadata[handle] = trace;
        trace->metadata_place = std::move(quota);
    });
    return handle;
}

Result<std::uint64_t> add_stream_to(Producer& producer, const wire::AddStream& message) {
    if (producer.session->locked([](const SessionState& state) { return state.open_streams(); }) >= kMaxStreams)
        return refused("the session has {} open streams already", kMaxStreams);
    StreamQuota& quota = producer.relay->quota();
    StreamQuota::Place quota_place = quota.take(producer.principal.address);
    if (quota_place == nullptr)
        return refused("its host has {} open streams already: raise the limit of open files", quota.most());
    const StreamPlace place = LEAT_TRY(place_of(producer, message));
    if (message.channel_name == trace::kMetadataFile)
        return add_metadata_stream(producer, place, std::move(quota_place));
    return add_data_stream(producer, message, place, std::move(quota_place));
}

CommandOutcome add_stream(Producer& producer, UntrustedBytes payload) {
    LEAT_PARSE(AddStream);
    const auto handle = add_stream_to(producer, message);
    if (!handle)
        return {.reply = wire::encode(wire::AddStreamReply{0, RelayCode::kUnknownError}), .error = handle.error()};
    return {.reply = wire::encode(wire::AddStreamReply{*handle, RelayCode::kOk})};
}

CommandOutcome streams_sent(Producer& producer, UntrustedBytes /*payload*/) {
    producer.session->locked([](SessionState& state) {
        // Those that have been published lie before those that have not.
        for (auto& [id, stream] : std::views::reverse(state.streams)) {
            if (std::exchange(stream->is_published, true)) break;
        }
        for (auto& [handle, trace] : state.metadata) trace->is_metadata_published = true;
        ++state.publications;
    });
    producer.changes.note();
    return replied(RelayCode::kOk);
}

std::shared_ptr<SessionStream> find_stream(Producer& producer, std::uint64_t handle) {
    return producer.session->locked([&](const SessionState& state) {
        const auto found = state.by_handle.find(handle);
        return found == state.by_handle.end() ? nullptr : found->second;
    });
}

std::shared_ptr<Trace> find_metadata(Producer& producer, std::uint64_t handle) {
    return producer.session->locked([&](const SessionState& state) {
        const auto found = state.metadata.find(handle);
        return found == state.metadata.end() ? nullptr : found->second;
    });
}

CommandOutcome send_index(Producer& producer, UntrustedBytes payload) {
    LEAT_PARSE(SendIndex);
    const auto stream = find_stream(producer, message.stream_id);
    if (stream == nullptr)
        return failed(RelayCode::kUnknownError,
                      {ErrorKind::kNotFound, fmt::format("SEND_INDEX: there is no stream {}", message.stream_id)});
    if (message.is_beacon()) {
        stream->stream->add_beacon(message);
    } else {
        const auto is_added = stream->stream->add_index(message, now());
        if (!is_added) return failed(RelayCode::kUnknownError, is_added.error());
        if (!*is_added) return {.must_wait = true};
    }
    producer.changes.add(stream);
    CommandOutcome outcome = replied(RelayCode::kOk);
    outcome.packet_size = message.entry.packet_size / 8;
    return outcome;
}

void close_metadata(Producer& producer, std::uint64_t handle, const std::shared_ptr<Trace>& trace) {
    trace->metadata->finish();
    producer.session->locked([&](SessionState& state) {
        state.metadata.erase(handle);
        trace->metadata_place.reset();
    });
    producer.relay->handles().remove(handle);
    producer.session->show(trace);
}

CommandOutcome close_stream(Producer& producer, UntrustedBytes payload) {
    LEAT_PARSE(CloseStream);
    if (const auto stream = find_stream(producer, message.stream_id)) {
        stream->stream->close_after(message.last_net_seq_num);
        producer.changes.add(stream);  // which finishes it, if all is here
    } else if (const auto trace = find_metadata(producer, message.stream_id)) {
        close_metadata(producer, message.stream_id, trace);
        producer.changes.note();
    } else {
        return failed(RelayCode::kUnknownError,
                      {ErrorKind::kNotFound, fmt::format("CLOSE_STREAM: there is no stream {}", message.stream_id)});
    }
    return replied(RelayCode::kOk);
}

// "Stored" is a promise: index and data are on disk by then, so that even a kill loses nothing.
CommandOutcome data_pending(Producer& producer, UntrustedBytes payload) {
    LEAT_PARSE(DataPending);
    const auto stream = find_stream(producer, message.stream_id);
    if (stream == nullptr) return {.reply = wire::encode(wire::CodeReply{RelayCode::kUnknownStream})};
    producer.session->locked([&](SessionState&) { stream->is_checked = true; });
    producer.changes.add(stream);
    const auto flushed = stream->stream->flush(now());
    if (!flushed && !is_disk_full(flushed)) return failed(RelayCode::kUnknownError, flushed.error());
    const bool is_stored = stream->stream->has_stored(message.last_net_seq_num);
    CommandOutcome outcome{.reply =
                               wire::encode(wire::CodeReply{is_stored ? RelayCode::kNotPending : RelayCode::kPending})};
    const DiskSync* const sync = producer.relay->sync();
    if (is_stored && sync != nullptr && sync->is_strict()) outcome.to_sync = stream->stream->duplicate_files();
    return outcome;
}

CommandOutcome quiescent_control(Producer& producer, UntrustedBytes payload) {
    LEAT_PARSE(IdRequest);
    // Metadata is stored by the time that this command is read.
    CommandOutcome outcome = replied(RelayCode::kOk);
    const auto trace = find_metadata(producer, message.id);
    const DiskSync* const sync = producer.relay->sync();
    if (trace == nullptr || sync == nullptr || !sync->is_strict()) return outcome;
    if (const auto text = trace->metadata->text())
        outcome.to_sync.emplace_back(::fcntl(text->file->get(), F_DUPFD_CLOEXEC, 0));
    return outcome;
}

CommandOutcome begin_data_pending(Producer& producer, UntrustedBytes payload) {
    LEAT_PARSE(IdRequest);
    static_cast<void>(message);
    producer.session->locked([](SessionState& state) {
        for (auto& [handle, stream] : state.by_handle) stream->is_checked = false;
    });
    return replied(RelayCode::kOk);
}

CommandOutcome end_data_pending(Producer& producer, UntrustedBytes payload) {
    LEAT_PARSE(IdRequest);
    static_cast<void>(message);
    for (const auto& stream : producer.session->open_streams()) {
        const bool is_checked = producer.session->locked([&](const SessionState&) { return stream->is_checked; });
        if (!is_checked && stream->stream->waits_for_data()) return replied(RelayCode::kPending);
    }
    return replied(RelayCode::kNotPending);
}

CommandOutcome reset_metadata(Producer& producer, UntrustedBytes payload) {
    LEAT_PARSE(ResetMetadata);
    if (producer.session->is_live())
        return failed(RelayCode::kUnknownError,
                      {ErrorKind::kRefused, "RESET_METADATA: a live session keeps its metadata"});
    const auto trace = find_metadata(producer, message.stream_id);
    if (trace == nullptr)
        return failed(RelayCode::kUnknownError,
                      {ErrorKind::kNotFound, fmt::format("RESET_METADATA: there is no stream {}", message.stream_id)});
    const auto reset = trace->metadata->reset();
    return reset ? replied(RelayCode::kOk) : failed(RelayCode::kUnknownError, reset.error());
}

// Metadata first: it may find no room, and then all of this is tried again.
Result<void> rotate(Producer& producer, const wire::RotateStreams& message, const std::shared_ptr<TraceChunk>& chunk) {
    for (const auto& position : message.positions)
        if (const auto trace = find_metadata(producer, position.stream_id)) {
            LEAT_TRY(trace->metadata->rotate(chunk));
            producer.session->show(trace);
        }
    for (const auto& position : message.positions) {
        if (find_metadata(producer, position.stream_id) != nullptr) continue;
        const auto stream = find_stream(producer, position.stream_id);
        if (stream == nullptr) return not_found("ROTATE_STREAMS: there is no stream {}", position.stream_id);
        LEAT_TRY(stream->stream->rotate(chunk, position.rotate_at, now()));
        producer.changes.add(stream);
    }
    return {};
}

CommandOutcome rotate_streams(Producer& producer, UntrustedBytes payload) {
    LEAT_PARSE(RotateStreams);
    std::shared_ptr<TraceChunk> chunk;
    if (message.new_chunk_id) {
        chunk = producer.session->directory()->find(*message.new_chunk_id);
        if (chunk == nullptr)
            return failed(RelayCode::kProtocolError,
                          {ErrorKind::kNotFound,
                           fmt::format("ROTATE_STREAMS: there is no trace chunk {}", *message.new_chunk_id)});
    }
    const auto rotated = rotate(producer, message, chunk);
    if (!rotated) return failed(RelayCode::kInvalid, rotated.error());
    producer.changes.note();
    return replied(RelayCode::kOk);
}

CommandOutcome create_trace_chunk(Producer& producer, UntrustedBytes payload) {
    LEAT_PARSE(CreateTraceChunk);
    auto chunk = producer.session->directory()->create_chunk(message);
    if (!chunk)
        return failed(chunk.error().kind == ErrorKind::kUnsupported ? RelayCode::kProtocolError : RelayCode::kInvalid,
                      chunk.error());
    return replied(RelayCode::kOk);
}

CommandOutcome close_trace_chunk(Producer& producer, UntrustedBytes payload) {
    LEAT_PARSE(CloseTraceChunk);
    const bool is_delete = message.command == wire::ChunkCommand::kDelete;
    if (is_delete && !producer.relay->policy().is_clear_allowed)
        return {.reply = wire::encode(wire::CloseTraceChunkReply{RelayCode::kInvalid, ""}),
                .error = Error{ErrorKind::kRefused, "CLOSE_TRACE_CHUNK: this relay does not allow to clear sessions"},
                .ends_connection = true};
    const auto path = producer.session->directory()->close_chunk(message);
    if (!path)
        return {.reply = wire::encode(wire::CloseTraceChunkReply{RelayCode::kNoMemory, ""}),
                .error = path.error(),
                .ends_connection = true};
    producer.changes.note();
    return {.reply = wire::encode(wire::CloseTraceChunkReply{RelayCode::kOk, *path})};
}

CommandOutcome trace_chunk_exists(Producer& producer, UntrustedBytes payload) {
    LEAT_PARSE(TraceChunkExists);
    const bool exists = producer.session->directory()->is_open(message.chunk_id);
    return {.reply =
                wire::encode(wire::TraceChunkExistsReply{RelayCode::kOk, static_cast<std::uint8_t>(exists ? 1 : 0)})};
}

CommandOutcome start_data(Producer& /*producer*/, UntrustedBytes /*payload*/) { return replied(RelayCode::kOk); }

#undef LEAT_PARSE

struct Command {
    RelayCommand command;
    std::uint32_t since;  // minor of the protocol
    enum class Needs : std::uint8_t { kNothing, kVersion, kSession } needs;
    std::uint64_t max_payload;  // bytes
    CommandOutcome (*run)(Producer&, UntrustedBytes);
};

using Needs = Command::Needs;
constexpr std::uint64_t kSmall = 1024;

constexpr std::array kCommands{
    Command{RelayCommand::kVersion, 0, Needs::kNothing, kSmall, version},
    Command{RelayCommand::kGetConfiguration, 12, Needs::kVersion, kSmall, get_configuration},
    Command{RelayCommand::kCreateSession, 0, Needs::kVersion, 8192, create_session},
    Command{RelayCommand::kStartData, 0, Needs::kVersion, kSmall, start_data},
    Command{RelayCommand::kCreateTraceChunk, kMinorOfChunks, Needs::kSession, 8192, create_trace_chunk},
    Command{RelayCommand::kAddStream, 0, Needs::kSession, 8192, add_stream},
    Command{RelayCommand::kStreamsSent, 4, Needs::kSession, kSmall, streams_sent},
    Command{RelayCommand::kSendIndex, kMinorOfIndexes, Needs::kSession, kSmall, send_index},
    Command{RelayCommand::kDataPending, 0, Needs::kSession, kSmall, data_pending},
    Command{RelayCommand::kQuiescentControl, 0, Needs::kSession, kSmall, quiescent_control},
    Command{RelayCommand::kBeginDataPending, 0, Needs::kSession, kSmall, begin_data_pending},
    Command{RelayCommand::kEndDataPending, 0, Needs::kSession, kSmall, end_data_pending},
    Command{RelayCommand::kResetMetadata, 8, Needs::kSession, kSmall, reset_metadata},
    Command{RelayCommand::kRotateStreams, kMinorOfChunks, Needs::kSession, 32 + 16 * kMaxStreams, rotate_streams},
    Command{RelayCommand::kCloseTraceChunk, kMinorOfChunks, Needs::kSession, kSmall, close_trace_chunk},
    Command{RelayCommand::kTraceChunkExists, kMinorOfChunks, Needs::kSession, kSmall, trace_chunk_exists},
    Command{RelayCommand::kCloseStream, 0, Needs::kSession, kSmall, close_stream},
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
    // What an older protocol does not have it cannot be asked for: it came with promises that older peers do not give.
    if (producer.minor.value_or(0) < found->since)
        return failed(RelayCode::kUnknownError,
                      {ErrorKind::kUnsupported,
                       fmt::format("{} does not exist in protocol 2.{}", wire::name_of(command), *producer.minor)});
    return found->run(producer, payload);
}

void end_producer(Producer& producer) {
    if (producer.session == nullptr) return;
    producer.relay->remove_session(*producer.session);
    producer.session->locked([](SessionState& state) {
        state.is_control_open = false;
        state.control_end = now();
    });
    for (const auto& stream : producer.session->open_streams()) stream->stream->end_indexes();
    if (!producer.session->finish_streams(now())) {
        const auto hurry = producer.session->locked([](const SessionState& state) { return state.hurry_data; });
        if (hurry) hurry();
    }
    producer.session->note_change();
}

}  // namespace leat::relay
