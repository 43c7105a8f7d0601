// Commands about trace chunks: a producer creates one, moves its streams into it, and closes it.
// (docs/formats/relay-ingest.md)
#pragma once

#include "relay/ingest/producer.hpp"

namespace leat::relay {

// Minor of the protocol that brought trace chunks.
constexpr std::uint32_t kMinorOfChunks = 11;

CommandOutcome create_trace_chunk(Producer& producer, const wire::CreateTraceChunk& message);
CommandOutcome rotate_streams(Producer& producer, const wire::RotateStreams& message);
CommandOutcome close_trace_chunk(Producer& producer, const wire::CloseTraceChunk& message);
CommandOutcome trace_chunk_exists(Producer& producer, const wire::TraceChunkExists& message);

}  // namespace leat::relay
