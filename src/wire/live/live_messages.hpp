// Between a viewer and a relay: LTTng's live protocol 2.4 to 2.13 ([live-protocol]), and two commands of our own.
// docs/formats/live.md.
//
// A request is a LiveHeader and a payload; replies have no header, and come in the order of the requests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "ctf/record/index_entry.hpp"
#include "wire/layout.hpp"

namespace leat::wire {

enum class LiveCommand : std::uint32_t {
    kConnect = 1,
    kListSessions = 2,
    kAttachSession = 3,
    kGetNextIndex = 4,
    kGetPacket = 5,
    kGetMetadata = 6,
    kGetNewStreams = 7,
    kCreateSession = 8,
    kDetachSession = 9,
    kWait = 0x4c65'0001,     // ours: see Wait
    kGetNews = 0x4c65'0002,  // ours: see GetNews
};

// Bits of `flags` in replies.
inline constexpr std::uint32_t kNewMetadata = 1;
inline constexpr std::uint32_t kNewStreams = 2;

enum class AttachStatus : std::uint32_t {
    kOk = 1,
    kAlready = 2,
    kUnknownSession = 3,
    kNotLive = 4,
    kSeekError = 5,
    kNoViewerSession = 6,
};
enum class CreateViewerStatus : std::uint32_t { kOk = 1, kError = 2 };
enum class NewStreamsStatus : std::uint32_t { kOk = 1, kNoNew = 2, kError = 3, kHangUp = 4 };
enum class IndexStatus : std::uint32_t { kOk = 1, kRetry = 2, kHangUp = 3, kError = 4, kInactive = 5, kEof = 6 };
enum class PacketStatus : std::uint32_t { kOk = 1, kRetry = 2, kError = 3, kEof = 4 };
enum class MetadataStatus : std::uint32_t { kOk = 1, kNoNew = 2, kError = 3 };
enum class DetachStatus : std::uint32_t { kOk = 1, kUnknownSession = 2, kNotAttached = 3 };
enum class WaitStatus : std::uint32_t { kOk = 1, kError = 3 };
enum class NewsStatus : std::uint32_t { kOk = 1, kError = 3 };
enum class Seek : std::uint32_t { kBeginning = 1, kLast = 2 };

struct LiveHeader {
    static constexpr const char* kName = "viewer header";
    std::uint64_t data_size = 0;  // bytes of the payload
    LiveCommand command{};
    std::uint32_t version = 0;  // not used

    static constexpr void layout(auto& at, auto& message) {
        at.fields(message.data_size, message.command, message.version);
    }
};

// A viewer that can wait says so where LTTng's send all ones and look at nothing; a relay that can, too, says so where
// LTTng's send 0. The lowest 16 bits are capabilities.
inline constexpr std::uint64_t kAskCapabilities = 0x4c65'6174'0000'0000;  // "Leat"
inline constexpr std::uint32_t kHaveCapabilities = 0x4c65'0000;           // "Le"
inline constexpr std::uint32_t kCapabilityMask = 0xffff;
inline constexpr std::uint32_t kCanWait = 1;
inline constexpr std::uint32_t kCanGetNews = 2;

inline constexpr std::uint32_t kCommandConnection = 1;

// Request and reply.
struct Connect {
    static constexpr const char* kName = "CONNECT";
    std::uint64_t viewer_session_id = ~std::uint64_t{0};
    std::uint32_t major = kProtocolMajor;
    std::uint32_t minor = kProtocolMinor;
    std::uint32_t type = kCommandConnection;

    static constexpr void layout(auto& at, auto& message) {
        at.fields(message.viewer_session_id, message.major, message.minor, message.type);
    }
};

struct CreateViewerReply {
    static constexpr const char* kName = "CREATE_SESSION reply";
    CreateViewerStatus status{};

    static constexpr void layout(auto& at, auto& message) { at.fields(message.status); }
};

struct DetachReply {
    static constexpr const char* kName = "DETACH_SESSION reply";
    DetachStatus status{};

    static constexpr void layout(auto& at, auto& message) { at.fields(message.status); }
};

// How many entries follow, in the reply to LIST_SESSIONS; an error code, in the reply to a command that is not known.
struct WordReply {
    static constexpr const char* kName = "reply";
    std::uint32_t value = 0;

    static constexpr void layout(auto& at, auto& message) { at.fields(message.value); }
};

struct ListedSession {
    static constexpr const char* kName = "listed session";
    std::uint64_t id = 0;
    std::uint32_t live_timer_us = 0;  // 0: not live
    std::uint32_t clients = 0;        // viewers attached
    std::uint32_t streams = 0;
    std::string hostname{};
    std::string session_name{};

    static constexpr void layout(auto& at, auto& message) {
        at.fields(message.id, message.live_timer_us, message.clients, message.streams);
        at.padded(message.hostname, 64);
        at.padded(message.session_name, 255);
    }
};

struct AttachSession {
    static constexpr const char* kName = "ATTACH_SESSION";
    std::uint64_t session_id = 0;
    std::uint64_t offset = 0;  // not used
    Seek seek{};

    static constexpr void layout(auto& at, auto& message) {
        at.fields(message.session_id, message.offset, message.seek);
    }
};

// `streams` stream descriptors follow.
template <class Status>
struct StreamsReply {
    static constexpr const char* kName = "streams reply";
    Status status{};
    std::uint32_t streams = 0;

    static constexpr void layout(auto& at, auto& message) { at.fields(message.status, message.streams); }
};

using AttachReply = StreamsReply<AttachStatus>;
using NewStreamsReply = StreamsReply<NewStreamsStatus>;

struct StreamDescriptor {
    static constexpr const char* kName = "stream descriptor";
    std::uint64_t id = 0;
    std::uint64_t trace_id = 0;     // streams with the same one are one CTF trace
    std::uint32_t is_metadata = 0;  // 0 or 1
    std::string path{};
    std::string channel_name{};

    static constexpr void layout(auto& at, auto& message) {
        at.fields(message.id, message.trace_id, message.is_metadata);
        at.padded(message.path, 4096);
        at.padded(message.channel_name, 255);
    }
};

// GET_NEXT_INDEX and GET_METADATA (a stream), GET_NEW_STREAMS and DETACH_SESSION (a session).
struct LiveIdRequest {
    static constexpr const char* kName = "request with an id";
    std::uint64_t id = 0;

    static constexpr void layout(auto& at, auto& message) { at.fields(message.id); }
};

struct NextIndexReply {
    static constexpr const char* kName = "GET_NEXT_INDEX reply";
    ctf::IndexEntry entry{};  // its first fields; the offset is in the stream's current file
    IndexStatus status{};
    std::uint32_t flags = 0;

    static constexpr void layout(auto& at, auto& message) {
        fields_of(at, message.entry, std::span(ctf::kIndexEntryFields).first(ctf::kFirstIndexEntryFields));
        at.fields(message.status, message.flags);
    }
};

struct GetPacket {
    static constexpr const char* kName = "GET_PACKET";
    std::uint64_t stream_id = 0;
    std::uint64_t offset = 0;  // bytes
    std::uint32_t length = 0;  // bytes

    static constexpr void layout(auto& at, auto& message) {
        at.fields(message.stream_id, message.offset, message.length);
    }
};

// With status kOk, `length` bytes follow.
struct PacketReply {
    static constexpr const char* kName = "GET_PACKET reply";
    PacketStatus status{};
    std::uint32_t length = 0;
    std::uint32_t flags = 0;

    static constexpr void layout(auto& at, auto& message) { at.fields(message.status, message.length, message.flags); }
};

// With status kOk, `length` bytes follow.
struct MetadataReply {
    static constexpr const char* kName = "GET_METADATA reply";
    std::uint64_t length = 0;
    MetadataStatus status{};

    static constexpr void layout(auto& at, auto& message) { at.fields(message.length, message.status); }
};

// Ours, if both have kCanWait: answered as soon as anything is new (index, beacon, metadata, stream, end) in the
// sessions that this connection is attached to, seen from the change that `seen` names; and otherwise after 10 s.
struct Wait {
    static constexpr const char* kName = "WAIT";
    std::uint64_t seen = 0;  // `change` of the last reply; 0 at first

    static constexpr void layout(auto& at, auto& message) { at.fields(message.seen); }
};

struct WaitReply {
    static constexpr const char* kName = "WAIT reply";
    WaitStatus status{};
    std::uint64_t change = 0;

    static constexpr void layout(auto& at, auto& message) { at.fields(message.status, message.change); }
};

// Ours, if both have kCanGetNews: everything that is new in all streams of all sessions that this connection is
// attached to, as soon as there is anything; after 10 s without, an answer that is empty.
struct GetNews {
    static constexpr const char* kName = "GET_NEWS";
    std::uint32_t limit = 0;  // bytes of packets; the last one may go beyond it

    static constexpr void layout(auto& at, auto& message) { at.fields(message.limit); }
};
inline constexpr std::uint32_t kMaxNewsEntries = 1024;
// Larger packets come without their bytes: GET_PACKET fetches them, before the next GET_NEWS.
inline constexpr std::uint32_t kMaxNewsPacket = 256U << 10;

// `entries` NewsEntry follow.
struct NewsReply {
    static constexpr const char* kName = "GET_NEWS reply";
    NewsStatus status{};
    std::uint32_t flags = 0;  // kNewStreams: ask for them, or learn that the session has ended
    std::uint32_t entries = 0;

    static constexpr void layout(auto& at, auto& message) { at.fields(message.status, message.flags, message.entries); }
};

// What GET_NEXT_INDEX would have answered, and with kOk the packet: `length` bytes follow.
struct NewsEntry {
    static constexpr const char* kName = "news";
    std::uint64_t stream_id = 0;
    NextIndexReply index{};
    std::uint32_t length = 0;  // of the packet; 0 if it does not come along

    static constexpr void layout(auto& at, auto& message) {
        at.fields(message.stream_id);
        NextIndexReply::layout(at, message.index);
        at.fields(message.length);
    }
};

// A whole request: header and payload.
template <class Message>
void append_request(Bytes& bytes, LiveCommand command, const Message& message) {
    append(bytes, LiveHeader{.data_size = kSizeOf<Message>, .command = command});
    append(bytes, message);
}

// One without a payload.
void append_request(Bytes& bytes, LiveCommand command);

// For messages to people: "GET_PACKET", or "command 99".
std::string name_of(LiveCommand command);

}  // namespace leat::wire
