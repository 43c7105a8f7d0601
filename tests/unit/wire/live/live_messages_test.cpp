#include "wire/live/live_messages.hpp"

#include <gtest/gtest.h>

#include <map>

#include "support/capture.hpp"

namespace leat::wire {
namespace {

using test::Capture;
using test::expect_no_other_length;
using test::expect_size;
using test::parse_and_encode;

const std::vector<std::string> kSessions{"live-uid-two-apps", "live-pid-buffers", "live-new-metadata-dlopen",
                                         "live-tracefile-rotation"};
using Counts = std::map<LiveCommand, int>;

void check_request(LiveCommand command, UntrustedBytes payload) {
    switch (command) {
        case LiveCommand::kConnect:
            return void(parse_and_encode<Connect>(payload));
        case LiveCommand::kListSessions:
        case LiveCommand::kCreateSession:
            EXPECT_TRUE(payload.empty());
            return;
        case LiveCommand::kAttachSession:
            return void(parse_and_encode<AttachSession>(payload));
        case LiveCommand::kGetPacket:
            return void(parse_and_encode<GetPacket>(payload));
        case LiveCommand::kGetNextIndex:
        case LiveCommand::kGetMetadata:
        case LiveCommand::kGetNewStreams:
        case LiveCommand::kDetachSession:
            return void(parse_and_encode<LiveIdRequest>(payload));
        default:
            ADD_FAILURE() << "no capture has " << name_of(command);
    }
}

template <class Status>
void check_streams(Capture& replies) {
    const auto reply = parse_and_encode<StreamsReply<Status>>(replies.take(8));
    EXPECT_EQ(reply.status == Status::kOk ? 0U : reply.streams, 0U);
    for (std::uint32_t i = 0; i < reply.streams; ++i) {
        const auto stream = parse_and_encode<StreamDescriptor>(replies.take(kSizeOf<StreamDescriptor>));
        EXPECT_EQ(stream.is_metadata == 1, stream.channel_name == "metadata");
        EXPECT_EQ(stream.path.find("ust/"), 0U);
    }
}

void check_sessions(Capture& replies) {
    const auto count = parse_and_encode<WordReply>(replies.take(4)).value;
    for (std::uint32_t i = 0; i < count; ++i)
        EXPECT_EQ(parse_and_encode<ListedSession>(replies.take(kSizeOf<ListedSession>)).hostname, "tracer1");
}

void check_reply(LiveCommand command, Capture& replies) {
    switch (command) {
        case LiveCommand::kConnect:
            return void(parse_and_encode<Connect>(replies.take(20)));
        case LiveCommand::kListSessions:
            return check_sessions(replies);
        case LiveCommand::kAttachSession:
            return check_streams<AttachStatus>(replies);
        case LiveCommand::kGetNewStreams:
            return check_streams<NewStreamsStatus>(replies);
        case LiveCommand::kGetNextIndex:
            return void(parse_and_encode<NextIndexReply>(replies.take(kSizeOf<NextIndexReply>)));
        case LiveCommand::kGetPacket: {
            const auto reply = parse_and_encode<PacketReply>(replies.take(kSizeOf<PacketReply>));
            return void(replies.take(reply.length));
        }
        case LiveCommand::kGetMetadata: {
            const auto reply = parse_and_encode<MetadataReply>(replies.take(kSizeOf<MetadataReply>));
            return void(replies.take(reply.length));
        }
        default:
            return void(parse_and_encode<WordReply>(replies.take(4)));
    }
}

// Checks both directions to their ends. Returns how often each command came.
Counts check_viewer(const std::string& session) {
    Capture requests(session, "viewer1.c2s");
    Capture replies(session, "viewer1.s2c");
    Counts counts;
    while (!requests.is_empty()) {
        const auto header = parse_and_encode<LiveHeader>(requests.take(kSizeOf<LiveHeader>));
        const auto command = header.command;
        SCOPED_TRACE(session + ": " + name_of(command) + ", reply at byte " + std::to_string(replies.offset()));
        check_request(command, requests.take(header.data_size));
        check_reply(command, replies);
        ++counts[command];
    }
    EXPECT_TRUE(replies.is_empty());
    return counts;
}

TEST(LiveMessages, CapturedViewersComeBackByteForByte) {
    std::map<std::string, Counts> counts;
    for (const std::string& session : kSessions) counts[session] = check_viewer(session);
    EXPECT_EQ(counts["live-uid-two-apps"][LiveCommand::kGetNextIndex], 42);
    EXPECT_EQ(counts["live-pid-buffers"][LiveCommand::kGetNewStreams], 25);
    EXPECT_EQ(counts["live-new-metadata-dlopen"][LiveCommand::kGetMetadata], 6);
    EXPECT_EQ(counts["live-tracefile-rotation"][LiveCommand::kGetPacket], 12);
}

TEST(LiveMessages, CapturedListNamesTheSession) {
    Capture replies("live-uid-two-apps", "viewer1.s2c");
    replies.take(24 + 4);
    const auto session = parse<ListedSession>(replies.take(kSizeOf<ListedSession>));
    ASSERT_TRUE(session) << session.error().message;
    EXPECT_EQ(session->id, 1U);
    EXPECT_EQ(session->live_timer_us, 500'000U);
    EXPECT_EQ(session->hostname, "tracer1");
    EXPECT_EQ(session->session_name, "live1");
}

TEST(LiveMessages, CutAnywhereOrTooLongIsRefused) {
    expect_no_other_length<LiveHeader>(encode(LiveHeader{}));
    expect_no_other_length<Connect>(encode(Connect{}));
    expect_no_other_length<WordReply>(encode(WordReply{}));
    expect_no_other_length<ListedSession>(encode(ListedSession{.hostname = "h", .session_name = "s"}));
    expect_no_other_length<AttachSession>(encode(AttachSession{}));
    expect_no_other_length<CreateViewerReply>(encode(CreateViewerReply{}));
    expect_no_other_length<DetachReply>(encode(DetachReply{}));
    expect_no_other_length<AttachReply>(encode(AttachReply{}));
    expect_no_other_length<NewStreamsReply>(encode(NewStreamsReply{}));
    expect_no_other_length<StreamDescriptor>(encode(StreamDescriptor{.path = "p", .channel_name = "c"}));
    expect_no_other_length<LiveIdRequest>(encode(LiveIdRequest{}));
    expect_no_other_length<NextIndexReply>(encode(NextIndexReply{}));
    expect_no_other_length<GetPacket>(encode(GetPacket{}));
    expect_no_other_length<PacketReply>(encode(PacketReply{}));
    expect_no_other_length<MetadataReply>(encode(MetadataReply{}));
    expect_no_other_length<Wait>(encode(Wait{}));
    expect_no_other_length<WaitReply>(encode(WaitReply{}));
    expect_no_other_length<GetNews>(encode(GetNews{}));
    expect_no_other_length<NewsReply>(encode(NewsReply{}));
    expect_no_other_length<NewsEntry>(encode(NewsEntry{}));
}

// Encoder and decoder share one layout, so a swap of two fields of one size would survive a round trip.
TEST(LiveMessages, FieldsLieInTheirOrder) {
    const Bytes index = encode(NextIndexReply{.entry = {.offset = 1,
                                                        .packet_size = 2,
                                                        .content_size = 3,
                                                        .timestamp_begin = 4,
                                                        .timestamp_end = 5,
                                                        .events_discarded = 6,
                                                        .stream_class_id = 7},
                                              .status = IndexStatus{8},
                                              .flags = 9});
    for (std::size_t i = 0; i < 7; ++i) EXPECT_EQ(index[8 * i + 7], static_cast<std::byte>(i + 1)) << i;
    EXPECT_EQ(index[59], std::byte{8});
    EXPECT_EQ(index[63], std::byte{9});

    const Bytes packet = encode(PacketReply{.status = PacketStatus{1}, .length = 2, .flags = 3});
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(packet[4 * i + 3], static_cast<std::byte>(i + 1)) << i;
    const Bytes request = encode(GetPacket{.stream_id = 1, .offset = 2, .length = 3});
    EXPECT_EQ(request[7], std::byte{1});
    EXPECT_EQ(request[15], std::byte{2});
    EXPECT_EQ(request[19], std::byte{3});
}

TEST(LiveMessages, SizesAreThoseThatReadersTakeFromASocket) {
    expect_size<LiveHeader>(16);
    expect_size<Connect>(20);
    expect_size<ListedSession>(339);
    expect_size<AttachSession>(20);
    expect_size<StreamDescriptor>(4371);
    expect_size<NextIndexReply>(64);
    expect_size<GetPacket>(20);
    expect_size<PacketReply>(12);
    expect_size<MetadataReply>(12);
    expect_size<WaitReply>(12);
    expect_size<NewsReply>(12);
    expect_size<NewsEntry>(76);
}

// LTTng's relay drops the viewer if a host name does not fit. A cut name is better than nothing.
TEST(LiveMessages, NameThatDoesNotFitIsCut) {
    const Bytes bytes = encode(ListedSession{.hostname = std::string(255, 'h'), .session_name = std::string(300, 's')});
    const auto session = parse<ListedSession>(bytes);
    ASSERT_TRUE(session) << session.error().message;
    EXPECT_EQ(session->hostname, std::string(63, 'h'));
    EXPECT_EQ(session->session_name, std::string(254, 's'));
}

TEST(LiveMessages, NameWithoutItsEndIsRefused) {
    Bytes bytes = encode(ListedSession{});
    std::fill(bytes.begin() + 20, bytes.begin() + 84, std::byte{'h'});
    EXPECT_FALSE(parse<ListedSession>(bytes));
    Bytes stream = encode(StreamDescriptor{});
    std::fill(stream.begin() + 20, stream.begin() + 4116, std::byte{'p'});
    EXPECT_FALSE(parse<StreamDescriptor>(stream));
}

TEST(LiveMessages, CapabilitiesAreInvisibleToLttng) {
    // LTTng's viewers send all ones as their id, and its relays send 0 as the type. Neither is taken for ours.
    EXPECT_NE(Connect{}.viewer_session_id & ~std::uint64_t{kCapabilityMask}, kAskCapabilities);
    EXPECT_EQ(kAskCapabilities & kCapabilityMask, 0U);
    EXPECT_EQ(kHaveCapabilities & kCapabilityMask, 0U);
}

TEST(LiveMessages, RequestsCarryTheSizeOfTheirPayload) {
    Bytes bytes;
    append_request(bytes, LiveCommand::kListSessions);
    EXPECT_EQ(bytes.size(), kSizeOf<LiveHeader>);
    append_request(bytes, LiveCommand::kGetPacket, GetPacket{.stream_id = 1, .offset = 2, .length = 3});
    const auto header = parse<LiveHeader>(UntrustedBytes(bytes).subspan(kSizeOf<LiveHeader>, kSizeOf<LiveHeader>));
    ASSERT_TRUE(header);
    EXPECT_EQ(header->data_size, bytes.size() - 2 * kSizeOf<LiveHeader>);
    EXPECT_EQ(name_of(header->command), "GET_PACKET");
    EXPECT_EQ(name_of(static_cast<LiveCommand>(99)), "command 99");
}

}  // namespace
}  // namespace leat::wire
