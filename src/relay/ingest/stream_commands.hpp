// Commands about single streams: a producer announces them, sends their indexes, and closes them.
// (docs/formats/relay-ingest.md)
#pragma once

#include "relay/ingest/producer.hpp"

namespace leat::relay {

// Streams that may be open in one session.
constexpr std::size_t kMaxStreams = 16384;
// Minors of the protocol that brought indexes, and indexes with two more fields.
constexpr std::uint32_t kMinorOfIndexes = 4;
constexpr std::uint32_t kMinorOfLongIndexes = 8;

CommandOutcome add_stream(Producer& producer, const wire::AddStream& message);
CommandOutcome streams_sent(Producer& producer);
CommandOutcome send_index(Producer& producer, const wire::SendIndex& message);
CommandOutcome close_stream(Producer& producer, const wire::CloseStream& message);
CommandOutcome reset_metadata(Producer& producer, const wire::ResetMetadata& message);

}  // namespace leat::relay
