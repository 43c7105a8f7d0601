#include "relay/ingest/chunk_commands.hpp"

namespace leat::relay {
namespace {

using wire::RelayCode;

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

}  // namespace

CommandOutcome create_trace_chunk(Producer& producer, const wire::CreateTraceChunk& message) {
    auto chunk = producer.session->directory()->create_chunk(message);
    if (!chunk)
        return failed(chunk.error().kind == ErrorKind::kUnsupported ? RelayCode::kProtocolError : RelayCode::kInvalid,
                      chunk.error());
    return replied(RelayCode::kOk);
}

CommandOutcome rotate_streams(Producer& producer, const wire::RotateStreams& message) {
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

CommandOutcome close_trace_chunk(Producer& producer, const wire::CloseTraceChunk& message) {
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

CommandOutcome trace_chunk_exists(Producer& producer, const wire::TraceChunkExists& message) {
    const bool exists = producer.session->directory()->is_open(message.chunk_id);
    return {.reply =
                wire::encode(wire::TraceChunkExistsReply{RelayCode::kOk, static_cast<std::uint8_t>(exists ? 1 : 0)})};
}

}  // namespace leat::relay
