#include "relay/ingest/stream_commands.hpp"

#include <ranges>
#include <utility>

#include "base/local_time.hpp"
#include "relay/ingest/chunk_commands.hpp"
#include "trace/stream_paths.hpp"

namespace leat::relay {
namespace {

using wire::RelayCode;

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

// Streams and metadata may come in either order, so whichever is first makes the trace.
std::shared_ptr<Trace> trace_at(Producer& producer, const StreamPlace& place) {
    return producer.session->locked([&](SessionState& state) {
        auto& trace = state.traces[place.trace];
        if (trace == nullptr)
            trace = std::make_shared<Trace>(
                Trace{.id = producer.relay->next_id(), .path = place.trace, .directory = place.directory});
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
    const auto take_place = [quota_of_all = &producer.relay->quota(), address = producer.principal.address,
                             session = producer.session->description().id] {
        return quota_of_all->take(address, session, StreamQuota::kOfData);
    };
    StreamParameters parameters{.handle = handle,
                                .id = producer.relay->next_id(),
                                .files = {.trace_id = trace->id,
                                          .path = place.path,
                                          .channel_name = name,
                                          .size_limit = message.tracefile_size,
                                          .count_limit = message.tracefile_count,
                                          .index_minor = has_indexes ? std::optional(index_minor) : std::nullopt},
                                .take_place = take_place,
                                .transport = producer.can_send_datagrams ? PairingTable::Transport::kDatagrams
                                                                         : PairingTable::Transport::kStream,
                                .traffic = producer.relay->shared_traffic()};
    auto stream = std::make_shared<SessionStream>();
    stream->id = parameters.id;
    stream->stream = std::make_shared<DataStream>(std::move(parameters), place.directory, place.chunk);
    stream->trace = trace;
    stream->place = std::move(quota);
    producer.session->add(stream);
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
    const bool is_metadata = message.channel_name == trace::kMetadataFile;
    StreamQuota& quota = producer.relay->quota();
    StreamQuota::Place quota_place = quota.take(producer.principal.address, producer.session->description().id,
                                                is_metadata ? StreamQuota::kOfMetadata : StreamQuota::kOfData);
    if (quota_place == nullptr)
        return refused("too many open streams of its host, which may take {} files: raise the limit of open files",
                       quota.most());
    const StreamPlace place = LEAT_TRY(place_of(producer, message));
    if (is_metadata) return add_metadata_stream(producer, place, std::move(quota_place));
    return add_data_stream(producer, message, place, std::move(quota_place));
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

}  // namespace

CommandOutcome add_stream(Producer& producer, const wire::AddStream& message) {
    const auto handle = add_stream_to(producer, message);
    if (!handle)
        return {.reply = wire::encode(wire::AddStreamReply{0, RelayCode::kUnknownError}), .error = handle.error()};
    return {.reply = wire::encode(wire::AddStreamReply{*handle, RelayCode::kOk})};
}

CommandOutcome streams_sent(Producer& producer) {
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

CommandOutcome send_index(Producer& producer, const wire::SendIndex& message) {
    const auto stream = find_stream(producer, message.stream_id);
    if (stream == nullptr)
        return failed(RelayCode::kUnknownError,
                      {ErrorKind::kNotFound, fmt::format("SEND_INDEX: there is no stream {}", message.stream_id)});
    if (message.is_beacon()) {
        stream->stream->add_beacon(message);
    } else {
        const auto is_added = stream->stream->add_index(message, now(), producer.session->is_data_silent());
        if (!is_added) return failed(RelayCode::kUnknownError, is_added.error());
        if (!*is_added) return {.must_wait = true};
    }
    producer.changes.add(stream);
    CommandOutcome outcome = replied(RelayCode::kOk);
    outcome.packet_size = message.entry.packet_size / 8;
    return outcome;
}

CommandOutcome close_stream(Producer& producer, const wire::CloseStream& message) {
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

CommandOutcome reset_metadata(Producer& producer, const wire::ResetMetadata& message) {
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

}  // namespace leat::relay
