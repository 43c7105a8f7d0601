#include "wire/ingest/relay_messages.hpp"

namespace leat::wire {
namespace {

// A flag in a byte or a word of its own, and a value that counts if it is set.
template <class Flag, class Value>
void optional(LayoutWriter& at, const std::optional<Value>& value) {
    at.fields(static_cast<Flag>(value.has_value()), value.value_or(Value{}));
}

template <class Flag, class Value>
void optional(LayoutReader& at, std::optional<Value>& value) {
    Flag is_set = 0;
    Value stored{};
    at.fields(is_set, stored);
    value = is_set != 0 ? std::optional(stored) : std::nullopt;
}

template <class Integer>
void flag(LayoutWriter& at, const bool& value) {
    at.fields(static_cast<Integer>(value));
}

template <class Integer>
void flag(LayoutReader& at, bool& value) {
    Integer stored = 0;
    at.fields(stored);
    value = stored != 0;
}

constexpr std::size_t kFixedChannelName = 264;
constexpr std::size_t kFixedStreamPath = 4096;

}  // namespace

template <class Layout, class Message>
void CreateSession::layout(Layout& at, Message& message) {
    if (at.minor() < 4) return;
    if (at.minor() < 11) {
        at.padded(message.session_name, 255);
        at.padded(message.hostname, 64);
        at.fields(message.live_timer_us);
        flag<std::uint32_t>(at, message.is_snapshot);
        return;
    }
    const std::uint32_t session_name = at.length(message.session_name);
    const std::uint32_t hostname = at.length(message.hostname);
    const std::uint32_t base_path = at.length(message.base_path);
    at.fields(message.live_timer_us);
    flag<std::uint8_t>(at, message.is_snapshot);
    flag<std::uint8_t>(at, message.name_contains_creation_time);
    at.raw(message.sessiond_uuid);
    at.fields(message.sessiond_session_id, message.creation_time);
    optional<std::uint8_t>(at, message.current_chunk_id);
    at.terminated(message.session_name, session_name, kMaxSessionName);
    at.terminated(message.hostname, hostname, kMaxHostname);
    at.terminated(message.base_path, base_path, kMaxBasePath);
}

template <class Layout, class Message>
void AddStream::layout(Layout& at, Message& message) {
    if (at.minor() >= 11) {
        const std::uint32_t channel = at.length(message.channel_name);
        const std::uint32_t path = at.length(message.path);
        at.fields(message.tracefile_size, message.tracefile_count, message.trace_chunk_id);
        at.terminated(message.channel_name, channel, kMaxChannelName);
        at.terminated(message.path, path, kMaxStreamPath);
        return;
    }
    at.padded(message.channel_name, kFixedChannelName);
    at.padded(message.path, kFixedStreamPath);
    if (at.minor() >= 2) at.fields(message.tracefile_size, message.tracefile_count);
}

template <class Layout, class Message>
void RotateStreams::layout(Layout& at, Message& message) {
    // Peers send the struct as it lies in their memory: 0, 3 or 7 bytes of padding behind the flag, by their ABI.
    constexpr std::size_t kFixed = 4 + 1 + 8;
    constexpr std::size_t kPosition = 16;
    std::size_t padding = 7;
    auto count = static_cast<std::uint32_t>(message.positions.size());
    if constexpr (Layout::kIsReader) {
        const std::size_t size = at.remaining();
        at.fields(count);
        if (size < kFixed + std::uint64_t{count} * kPosition)
            return at.fault({ErrorKind::kCorrupt, fmt::format("{} streams do not fit into it", count)});
        padding = size - kFixed - count * kPosition;
        if (padding != 0 && padding != 3 && padding != 7)
            return at.fault({ErrorKind::kCorrupt, "its size fits no known layout"});
        message.positions.resize(count);
    } else {
        at.fields(count);
    }
    std::uint8_t is_set = message.new_chunk_id.has_value() ? 1 : 0;
    std::uint64_t chunk_id = message.new_chunk_id.value_or(0);
    at.fields(is_set);
    at.skip(padding);
    at.fields(chunk_id);
    if constexpr (Layout::kIsReader) message.new_chunk_id = is_set != 0 ? std::optional(chunk_id) : std::nullopt;
    for (auto& position : message.positions) at.fields(position.stream_id, position.rotate_at);
}

template <class Layout, class Message>
void CloseTraceChunk::layout(Layout& at, Message& message) {
    at.fields(message.chunk_id, message.close_time);
    optional<std::uint8_t>(at, message.command);
}

template void CreateSession::layout(LayoutWriter&, const CreateSession&);
template void CreateSession::layout(LayoutReader&, CreateSession&);
template void AddStream::layout(LayoutWriter&, const AddStream&);
template void AddStream::layout(LayoutReader&, AddStream&);
template void RotateStreams::layout(LayoutWriter&, const RotateStreams&);
template void RotateStreams::layout(LayoutReader&, RotateStreams&);
template void CloseTraceChunk::layout(LayoutWriter&, const CloseTraceChunk&);
template void CloseTraceChunk::layout(LayoutReader&, CloseTraceChunk&);

Bytes encode_request(RelayCommand command) { return encode(ControlHeader{.command = command}); }

std::string name_of(RelayCommand command) {
    switch (command) {
        case RelayCommand::kAddStream:
            return "ADD_STREAM";
        case RelayCommand::kCreateSession:
            return "CREATE_SESSION";
        case RelayCommand::kStartData:
            return "START_DATA";
        case RelayCommand::kUpdateSyncInfo:
            return "UPDATE_SYNC_INFO";
        case RelayCommand::kVersion:
            return "VERSION";
        case RelayCommand::kSendMetadata:
            return "SEND_METADATA";
        case RelayCommand::kCloseStream:
            return "CLOSE_STREAM";
        case RelayCommand::kDataPending:
            return "DATA_PENDING";
        case RelayCommand::kQuiescentControl:
            return "QUIESCENT_CONTROL";
        case RelayCommand::kBeginDataPending:
            return "BEGIN_DATA_PENDING";
        case RelayCommand::kEndDataPending:
            return "END_DATA_PENDING";
        case RelayCommand::kSendIndex:
            return "SEND_INDEX";
        case RelayCommand::kStreamsSent:
            return "STREAMS_SENT";
        case RelayCommand::kResetMetadata:
            return "RESET_METADATA";
        case RelayCommand::kRotateStreams:
            return "ROTATE_STREAMS";
        case RelayCommand::kCreateTraceChunk:
            return "CREATE_TRACE_CHUNK";
        case RelayCommand::kCloseTraceChunk:
            return "CLOSE_TRACE_CHUNK";
        case RelayCommand::kTraceChunkExists:
            return "TRACE_CHUNK_EXISTS";
        case RelayCommand::kGetConfiguration:
            return "GET_CONFIGURATION";
    }
    return fmt::format("command {}", command);
}

}  // namespace leat::wire
