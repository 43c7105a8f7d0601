// From the tracing side to a relay: the control connection (requests and replies), the data connection (packets one
// way), and our own datagrams. LTTng 2.1 to 2.13 ([LTTng-2.13]); docs/formats/relay-ingest.md.
//
// A request is a ControlHeader and a payload; replies have no header, and come in the order of the requests.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ctf/record/index_entry.hpp"
#include "wire/layout.hpp"

namespace leat::wire {

// A larger payload than this is not believed.
inline constexpr std::uint64_t kMaxControlPayload = 128U << 20;
inline constexpr std::uint32_t kMaxSessionName = 255;  // with their NUL, as the next ones
inline constexpr std::uint32_t kMaxHostname = 256;
inline constexpr std::uint32_t kMaxBasePath = 4096;
inline constexpr std::uint32_t kMaxChannelName = 264;
inline constexpr std::uint32_t kMaxStreamPath = 4096;
inline constexpr std::uint32_t kMaxChunkName = 255;

// No packet has been sent; also the number that belongs to a metadata stream.
inline constexpr std::uint64_t kNoPacket = ~std::uint64_t{0};

enum class RelayCommand : std::uint32_t {
    kAddStream = 1,
    kCreateSession = 2,
    kStartData = 3,
    kUpdateSyncInfo = 4,
    kVersion = 5,
    kSendMetadata = 6,
    kCloseStream = 7,
    kDataPending = 8,
    kQuiescentControl = 9,
    kBeginDataPending = 10,
    kEndDataPending = 11,
    kSendIndex = 13,
    kStreamsSent = 16,
    kResetMetadata = 17,
    kRotateStreams = 18,
    kCreateTraceChunk = 19,
    kCloseTraceChunk = 20,
    kTraceChunkExists = 21,
    kGetConfiguration = 22,
};

enum class RelayCode : std::uint32_t {
    kNotPending = 0,  // these two: DATA_PENDING and END_DATA_PENDING alone
    kPending = 1,
    kOk = 10,
    kUnknownError = 11,
    kFatal = 25,
    kNoMemory = 26,
    kInvalid = 97,
    kProtocolError = 152,
    kUnknownStream = 0xffff'ffff,  // DATA_PENDING alone
};

struct ControlHeader {
    static constexpr const char* kName = "control header";
    std::uint64_t circuit_id = 0;  // not used
    std::uint64_t data_size = 0;   // bytes of the payload
    RelayCommand command{};
    std::uint32_t version = 0;  // not used

    static constexpr void layout(auto& at, auto& message) {
        at.fields(message.circuit_id, message.data_size, message.command, message.version);
    }
};

// Most replies.
struct CodeReply {
    static constexpr const char* kName = "reply";
    RelayCode code{};

    static constexpr void layout(auto& at, auto& message) { at.fields(message.code); }
};

// Request and reply. Both sides then use the smaller minor.
struct Version {
    static constexpr const char* kName = "VERSION";
    std::uint32_t major = kProtocolMajor;
    std::uint32_t minor = kProtocolMinor;

    static constexpr void layout(auto& at, auto& message) { at.fields(message.major, message.minor); }
};

// Asks for what only our own relay can do: LTTng's answers kProtocolError, and goes on. The reply has the same bit set.
inline constexpr std::uint64_t kQueryDatagrams = std::uint64_t{1} << 63;
// In the reply.
inline constexpr std::uint64_t kClearAllowed = 1;

struct GetConfiguration {
    static constexpr const char* kName = "GET_CONFIGURATION";
    std::uint64_t query_flags = 0;

    static constexpr void layout(auto& at, auto& message) { at.fields(message.query_flags); }
};

struct ConfigurationReply {
    static constexpr const char* kName = "GET_CONFIGURATION reply";
    RelayCode code{};
    std::uint64_t flags = 0;

    static constexpr void layout(auto& at, auto& message) { at.fields(message.code, message.flags); }
};

// Minors below 4 send an empty payload; 4 to 10 only the first four.
struct CreateSession {
    static constexpr const char* kName = "CREATE_SESSION";
    std::string session_name{};
    std::string hostname{};
    std::uint32_t live_timer_us = 0;  // 0: not live
    bool is_snapshot = false;
    std::string base_path{};  // replaces name and date in the output path
    bool name_contains_creation_time = false;
    std::array<std::uint8_t, 16> sessiond_uuid{};
    std::uint64_t sessiond_session_id = 0;
    std::uint64_t creation_time = 0;  // s since the epoch
    std::optional<std::uint64_t> current_chunk_id{};

    template <class Layout, class Message>
    static void layout(Layout& at, Message& message);
};

// Minors below 11 end behind the code.
struct CreateSessionReply {
    static constexpr const char* kName = "CREATE_SESSION reply";
    std::uint64_t session_id = 0;
    RelayCode code{};
    std::string output_path{};  // relative to the relay's output directory; none in a refusal

    static constexpr void layout(auto& at, auto& message) {
        at.fields(message.session_id, message.code);
        if (at.minor() < 11) return;
        const std::uint32_t length = at.length_if_any(message.output_path);
        at.terminated(message.output_path, length, kMaxBasePath);
    }
};

struct AddStream {
    static constexpr const char* kName = "ADD_STREAM";
    std::string channel_name{};  // CHANNEL_CPU, or `metadata`
    std::string path{};
    std::uint64_t tracefile_size = 0;   // bytes; 0: no limit
    std::uint64_t tracefile_count = 0;  // 0: no limit
    std::uint64_t trace_chunk_id = 0;   // from minor 11

    template <class Layout, class Message>
    static void layout(Layout& at, Message& message);
};

struct AddStreamReply {
    static constexpr const char* kName = "ADD_STREAM reply";
    std::uint64_t handle = 0;
    RelayCode code{};

    static constexpr void layout(auto& at, auto& message) { at.fields(message.handle, message.code); }
};

// In front of the metadata itself. The relay appends `padding_size` zeros. There is no reply.
struct SendMetadata {
    static constexpr const char* kName = "SEND_METADATA";
    std::uint64_t stream_id = 0;
    std::uint32_t padding_size = 0;

    static constexpr void layout(auto& at, auto& message) { at.fields(message.stream_id, message.padding_size); }
};

// On the data connection, in front of a packet. The relay appends `padding_size` zeros.
struct DataHeader {
    static constexpr const char* kName = "data header";
    std::uint64_t circuit_id = 0;  // not used
    std::uint64_t stream_id = 0;
    std::uint64_t net_seq_num = 0;
    std::uint32_t data_size = 0;
    std::uint32_t padding_size = 0;

    static constexpr void layout(auto& at, auto& message) {
        at.fields(message.circuit_id, message.stream_id, message.net_seq_num, message.data_size, message.padding_size);
    }
};

// In front of each datagram: which piece of which packet. Our own; version 2.
struct DatagramHeader {
    static constexpr const char* kName = "datagram";
    static constexpr std::uint32_t kMagic = 0x4c65'5502;  // "LeU", version
    std::uint32_t magic = kMagic;
    std::uint64_t stream_id = 0;
    std::uint64_t net_seq_num = 0;
    std::uint32_t packet_size = 0;  // bytes of the packet: of all its pieces
    std::uint32_t offset = 0;       // where in the packet this piece belongs
    // The place of a message authentication code. No key is agreed on yet, so both are 0, and nothing is checked.
    std::uint32_t key = 0;  // which key; 0: none
    std::uint64_t mac = 0;

    static constexpr void layout(auto& at, auto& message) {
        at.fields(message.magic, message.stream_id, message.net_seq_num, message.packet_size, message.offset,
                  message.key, message.mac);
    }
};
// Every piece but the last is this long: it fits an Ethernet frame, and the relay counts pieces by it.
inline constexpr std::size_t kDatagramPiece = 1400;
inline constexpr std::uint32_t kMaxDatagramPacket = 1U << 20;

// Not sent below minor 4; up to minor 7 without the last two fields of the entry. The entry's packet_size is 0 in a
// beacon, whose timestamp_end says that nothing older will come.
struct SendIndex {
    static constexpr const char* kName = "SEND_INDEX";
    std::uint64_t stream_id = 0;
    std::uint64_t net_seq_num = 0;
    ctf::IndexEntry entry{};  // all but its offset, which the relay knows

    [[nodiscard]] bool is_beacon() const { return entry.packet_size == 0; }

    static constexpr void layout(auto& at, auto& message) {
        at.fields(message.stream_id, message.net_seq_num);
        const std::span all(ctf::kIndexEntryFields);
        fields_of(at, message.entry, (at.minor() >= 8 ? all : all.first(ctf::kFirstIndexEntryFields)).subspan(1));
    }
};

struct CloseStream {
    static constexpr const char* kName = "CLOSE_STREAM";
    std::uint64_t stream_id = 0;
    std::uint64_t last_net_seq_num = kNoPacket;

    static constexpr void layout(auto& at, auto& message) { at.fields(message.stream_id, message.last_net_seq_num); }
};

struct DataPending {
    static constexpr const char* kName = "DATA_PENDING";
    std::uint64_t stream_id = 0;
    std::uint64_t last_net_seq_num = kNoPacket;

    static constexpr void layout(auto& at, auto& message) { at.fields(message.stream_id, message.last_net_seq_num); }
};

// QUIESCENT_CONTROL (a metadata stream), BEGIN_DATA_PENDING and END_DATA_PENDING (the relay's session id).
struct IdRequest {
    static constexpr const char* kName = "request with an id";
    std::uint64_t id = 0;

    static constexpr void layout(auto& at, auto& message) { at.fields(message.id); }
};

struct ResetMetadata {
    static constexpr const char* kName = "RESET_METADATA";
    std::uint64_t stream_id = 0;
    std::uint64_t version = 0;

    static constexpr void layout(auto& at, auto& message) { at.fields(message.stream_id, message.version); }
};

struct RotateStreams {
    static constexpr const char* kName = "ROTATE_STREAMS";
    struct Position {
        std::uint64_t stream_id = 0;
        std::uint64_t rotate_at = 0;  // packet_seq_num of the first packet of the new chunk
    };
    std::optional<std::uint64_t> new_chunk_id{};  // none: out of any chunk
    std::vector<Position> positions{};

    template <class Layout, class Message>
    static void layout(Layout& at, Message& message);
};

struct CreateTraceChunk {
    static constexpr const char* kName = "CREATE_TRACE_CHUNK";
    std::uint64_t chunk_id = 0;
    std::uint64_t creation_time = 0;  // s since the epoch
    std::string override_name{};      // snapshots: the directory's name

    static constexpr void layout(auto& at, auto& message) {
        at.fields(message.chunk_id, message.creation_time);
        const std::uint32_t length = at.length_if_any(message.override_name);
        at.terminated(message.override_name, length, kMaxChunkName);
    }
};

enum class ChunkCommand : std::uint32_t { kMoveToArchives = 0, kNone = 1, kDelete = 2 };

struct CloseTraceChunk {
    static constexpr const char* kName = "CLOSE_TRACE_CHUNK";
    std::uint64_t chunk_id = 0;
    std::uint64_t close_time = 0;  // s since the epoch
    std::optional<ChunkCommand> command{};

    template <class Layout, class Message>
    static void layout(Layout& at, Message& message);
};

struct CloseTraceChunkReply {
    static constexpr const char* kName = "CLOSE_TRACE_CHUNK reply";
    RelayCode code{};
    std::string path{};  // never empty if all is well: LTTng's producer then fails

    static constexpr void layout(auto& at, auto& message) {
        at.fields(message.code);
        const std::uint32_t length = at.length_if_any(message.path);
        at.terminated(message.path, length, kMaxBasePath);
    }
};

struct TraceChunkExists {
    static constexpr const char* kName = "TRACE_CHUNK_EXISTS";
    std::uint64_t chunk_id = 0;

    static constexpr void layout(auto& at, auto& message) { at.fields(message.chunk_id); }
};

struct TraceChunkExistsReply {
    static constexpr const char* kName = "TRACE_CHUNK_EXISTS reply";
    RelayCode code{};
    std::uint8_t exists = 0;

    static constexpr void layout(auto& at, auto& message) { at.fields(message.code, message.exists); }
};

// A whole request: header and payload.
template <class Message>
Bytes encode_request(RelayCommand command, const Message& message, std::uint32_t minor = kProtocolMinor) {
    const Bytes payload = encode(message, minor);
    Bytes bytes = encode(ControlHeader{.data_size = payload.size(), .command = command});
    bytes.insert(bytes.end(), payload.begin(), payload.end());
    return bytes;
}

// One without a payload.
Bytes encode_request(RelayCommand command);

// For messages to people: "ADD_STREAM", or "command 99".
std::string name_of(RelayCommand command);

}  // namespace leat::wire
