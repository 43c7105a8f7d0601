#include "viewer/read/live_connection.hpp"

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <string>

#include "support/scripted_socket.hpp"

namespace leat::viewer {
namespace {

using test::kOk;
using test::ScriptedSocket;
using namespace wire;

Bytes connect_reply(std::uint32_t capabilities = 0) {
    return encode(Connect{.viewer_session_id = 1, .type = capabilities == 0 ? 0 : kHaveCapabilities | capabilities});
}

template <class... Message>
Bytes replies(Bytes bytes, const Message&... messages) {
    (append(bytes, messages), ...);
    return bytes;
}

// What a relay says after the version is agreed on.
class Script {
  public:
    explicit Script(const Bytes& bytes, bool is_slow = false) : peer_(bytes, is_slow) {
        auto opened = LiveConnection::open(peer_.take());
        EXPECT_TRUE(opened) << opened.error().message;
        if (opened) connection_.emplace(*std::move(opened));
    }
    LiveConnection* operator->() { return &*connection_; }

  private:
    ScriptedSocket peer_;
    std::optional<LiveConnection> connection_;
};

template <class T>
void expect_error(const Result<T>& result, const std::string& text) {
    ASSERT_FALSE(result);
    EXPECT_NE(result.error().message.find(text), std::string::npos) << result.error().message;
}

TEST(LiveConnection, RelayOfAnotherMajorOrTooOldIsRefused) {
    ScriptedSocket peer(encode(Connect{.major = 3}));
    expect_error(LiveConnection::open(peer.take()), "upgrade the relay");
    ScriptedSocket older(encode(Connect{.minor = 2}));
    expect_error(LiveConnection::open(older.take()), "it speaks live protocol 2.2, 2.4 or later is needed");
}

TEST(LiveConnection, RelayThatClosesIsNamedWithTheCommand) {
    ScriptedSocket silent({});
    expect_error(LiveConnection::open(silent.take()), "CONNECT: the relay closed the connection");
    Script half(replies(connect_reply(), WordReply{2}, ListedSession{}));
    expect_error(half->list_sessions(), "LIST_SESSIONS: the relay closed the connection");
}

TEST(LiveConnection, OnlyOneOfOursHasCapabilities) {
    EXPECT_FALSE(Script(connect_reply())->can_get_news());
    EXPECT_TRUE(Script(connect_reply(kCanGetNews))->can_get_news());
    EXPECT_FALSE(Script(connect_reply(kCanWait))->can_get_news());
    EXPECT_FALSE(Script(encode(Connect{.type = kCanGetNews | kCanWait}))->can_get_news());
}

TEST(LiveConnection, RepliesMayComeByteByByte) {
    const NextIndexReply index{.entry = {.packet_size = 24}, .status = kOk};
    Script relay(replies(replies(connect_reply(kCanGetNews), WordReply{1}, ListedSession{.session_name = "night"},
                                 AttachReply{kOk, 1}, StreamDescriptor{.id = 7, .channel_name = "c_0"}, index,
                                 PacketReply{kOk, 1, 0}, WordReply{42}),  // its first byte is the packet
                         NewsReply{kOk, kNewStreams, 1}),
                 true);
    const auto sessions = relay->list_sessions();
    ASSERT_TRUE(sessions);
    EXPECT_EQ(sessions->front().session_name, "night");
    const auto attached = relay->attach(1, Seek::kBeginning);
    ASSERT_TRUE(attached);
    EXPECT_EQ(attached->streams.front().id, 7U);
    const std::array<std::uint64_t, 1> ids{7};
    const auto indexes = relay->next_indexes(ids);
    ASSERT_TRUE(indexes);
    EXPECT_EQ(indexes->front().entry.packet_size, 24U);
    std::array<std::byte, 3> bytes{};
    const auto packet = relay->packet(7, 0, bytes);
    ASSERT_TRUE(packet);
    EXPECT_EQ(packet->length, 1U);  // less than requested: the caller asks for the rest
}

TEST(LiveConnection, CountsThatNoRelayHasAreRefusedBeforeAnythingIsAllocated) {
    expect_error(Script(replies(connect_reply(), WordReply{~0U}))->list_sessions(), "4294967295 sessions");
    expect_error(Script(replies(connect_reply(), AttachReply{kOk, ~0U}))->attach(1, Seek::kBeginning),
                 "4294967295 streams");
    expect_error(Script(replies(connect_reply(), MetadataReply{~0ULL, kOk}))->metadata(1, 1000),
                 "18446744073709551615 bytes of new metadata are too many");
    std::array<std::byte, 3> bytes{};
    expect_error(Script(replies(connect_reply(), PacketReply{kOk, 4, 0}))->packet(1, 0, bytes), "4 bytes came of 3");
    expect_error(Script(replies(connect_reply(), PacketReply{kOk, 0, 0}))->packet(1, 0, bytes), "0 bytes came of 3");
}

TEST(LiveConnection, CountWithoutTheEntriesIsAnEnd) {
    expect_error(Script(replies(connect_reply(), NewStreamsReply{kOk, kMaxStreams}))->new_streams(1),
                 "the relay closed the connection");
}

TEST(LiveConnection, RefusalsHaveNothingBehindThem) {
    Script relay(replies(connect_reply(), AttachReply{AttachStatus::kNotLive, 77},
                         MetadataReply{77, MetadataStatus::kNoNew},
                         PacketReply{PacketStatus::kError, 77, kNewMetadata}));
    EXPECT_EQ(relay->attach(1, Seek::kBeginning)->status, AttachStatus::kNotLive);
    EXPECT_EQ(relay->metadata(1, 1000)->status, MetadataStatus::kNoNew);
    std::array<std::byte, 3> bytes{};
    const auto packet = relay->packet(1, 0, bytes);
    ASSERT_TRUE(packet);
    EXPECT_EQ(packet->status, PacketStatus::kError);
    EXPECT_EQ(packet->flags, kNewMetadata);
}

Result<LiveConnection::News> news_in(const Bytes& bytes, bool is_slow = false) {
    Bytes all = connect_reply(kCanGetNews);
    all.insert(all.end(), bytes.begin(), bytes.end());
    ScriptedSocket peer(all, is_slow);
    auto connection = LiveConnection::open(peer.take());
    EXPECT_TRUE(connection);
    EXPECT_TRUE(connection->request_news());
    EXPECT_TRUE(connection->has_requested_news());
    return connection->receive_news();
}

NewsEntry entry(IndexStatus status, std::uint64_t packet_size_bits, std::uint32_t length) {
    return {.stream_id = 7, .index = {.entry = {.packet_size = packet_size_bits}, .status = status}, .length = length};
}

TEST(LiveConnection, NewsBringTheirPackets) {
    const Bytes bytes = replies({}, NewsReply{kOk, kNewStreams, 3}, entry(kOk, 32, 4), WordReply{0x01020304},
                                entry(IndexStatus::kInactive, 0, 0), entry(kOk, 1U << 30, 0));
    for (const bool is_slow : {false, true}) {
        const auto news = news_in(bytes, is_slow);
        ASSERT_TRUE(news) << news.error().message;
        EXPECT_EQ(news->flags, kNewStreams);
        ASSERT_EQ(news->entries.size(), 3U);
        EXPECT_EQ(news->entries[0].packet, (Bytes{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}}));
        EXPECT_EQ(news->entries[1].index.status, IndexStatus::kInactive);
        EXPECT_TRUE(news->entries[2].packet.empty());
    }
}

TEST(LiveConnection, NewsThatCannotBeAreRefused) {
    expect_error(news_in(replies({}, NewsReply{NewsStatus::kError, 0, 0})), "GET_NEWS: the relay refused it");
    expect_error(news_in(replies({}, NewsReply{kOk, 0, kMaxNewsEntries + 1})), "entries are more than it may have");
    // The reply has bytes of another packet, too many bytes, or bytes where there is no packet.
    expect_error(news_in(replies({}, NewsReply{kOk, 0, 1}, entry(kOk, 32, 5))),
                 "5 bytes come with a packet of 32 bits");
    expect_error(
        news_in(replies({}, NewsReply{kOk, 0, 1}, entry(kOk, 8ULL * (kMaxNewsPacket + 1), kMaxNewsPacket + 1))),
        "bytes come with");
    expect_error(news_in(replies({}, NewsReply{kOk, 0, 1}, entry(IndexStatus::kInactive, 32, 4))), "4 bytes come with");
    expect_error(news_in(replies({}, NewsReply{kOk, 0, 2}, entry(IndexStatus::kInactive, 0, 0))),
                 "the relay closed the connection");
}

TEST(LiveConnection, NewsLargerThanWasAskedForAreRefused) {
    Bytes bytes = replies({}, NewsReply{kOk, 0, 5});
    for (int i = 0; i < 5; ++i) {
        append(bytes, entry(kOk, 8ULL * kMaxNewsPacket, kMaxNewsPacket));
        bytes.resize(bytes.size() + kMaxNewsPacket);
    }
    expect_error(news_in(bytes), "more bytes came than were asked for");
}

}  // namespace
}  // namespace leat::viewer
