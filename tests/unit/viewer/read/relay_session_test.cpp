#include "viewer/read/relay_session.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "ctf/metadata/metadata_stream.hpp"
#include "support/byte_metadata.hpp"
#include "support/scripted_socket.hpp"

namespace leat::viewer {
namespace {

using test::kOk;
using test::ScriptedSocket;
using namespace wire;

constexpr std::uint64_t kMetadataStream = 1;
constexpr std::uint64_t kTrace = 9;
constexpr std::int64_t kSecond = 1'000'000'000;

// The answers of a relay, in the order of the requests that a viewer makes.
class RelayScript {
  public:
    explicit RelayScript(std::uint32_t capabilities) {
        add(Connect{.type = capabilities == 0 ? 0 : kHaveCapabilities | capabilities});
    }
    template <class... Message>
    RelayScript& add(const Message&... messages) {
        (append(bytes_, messages), ...);
        return *this;
    }
    RelayScript& text(const std::string& text) {
        const auto bytes = std::as_bytes(std::span(text));
        bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
        return *this;
    }
    // ATTACH_SESSION: the metadata stream, and data streams with these ids.
    RelayScript& attached(const std::vector<std::uint64_t>& ids) {
        add(AttachReply{kOk, static_cast<std::uint32_t>(ids.size() + 1)},
            StreamDescriptor{.id = kMetadataStream, .trace_id = kTrace, .is_metadata = 1});
        for (const std::uint64_t id : ids)
            add(StreamDescriptor{.id = id, .trace_id = kTrace, .path = "p", .channel_name = "c"});
        return *this;
    }
    // GET_METADATA, twice.
    RelayScript& metadata() {
        return add(MetadataReply{test::kByteMetadata.size(), kOk})
            .text(test::kByteMetadata)
            .add(MetadataReply{0, MetadataStatus::kNoNew});
    }
    [[nodiscard]] const Bytes& bytes() const { return bytes_; }

  private:
    Bytes bytes_;
};

std::string packet(char begin, char end, const std::string& times) {
    return std::string{1, static_cast<char>((4 + times.size()) * 8), begin, end} + times;
}

NewsEntry news_of(std::uint64_t stream, IndexStatus status, std::size_t bytes = 0, std::uint64_t time = 0) {
    return {stream,
            {.entry = {.packet_size = bytes * 8, .timestamp_end = time}, .status = status},
            static_cast<std::uint32_t>(bytes)};
}

class RelaySessionTest : public testing::Test {
  protected:
    // Reads to the end of the session or of the script. Returns the seconds of the events.
    std::string told_by(const RelayScript& script) {
        ScriptedSocket peer(script.bytes());
        auto connection = LiveConnection::open(peer.take());
        EXPECT_TRUE(connection);
        LiveMerge merge;
        std::string text;
        {
            RelaySession session(*connection, merge, shown_,
                                 [this](const std::string& warning) { warnings_ += warning; });
            for (const std::uint64_t id : sessions_)
                EXPECT_FALSE(session.attach({.id = id, .live_timer_us = 1}, Seek::kBeginning).value());
            while (true) {
                const auto progress = session.advance();
                tell(merge, text);
                if (!progress) error_ = progress.error().message;
                told_live_ = text;
                if (!progress || *progress == Progress::kEnded) break;
                if (*progress == Progress::kNews) continue;
                const auto waited = session.wait();
                if (waited) continue;
                error_ = waited.error().message;
                break;
            }
        }
        tell(merge, text);
        return text;
    }

    static void tell(LiveMerge& merge, std::string& text) {
        for (auto is_one = merge.next(); !is_one || *is_one; is_one = merge.next())
            if (is_one && merge.message().kind == Message::Kind::kEvent)
                text += fmt::format("{} ", *merge.message().time_ns / kSecond);
    }

    std::vector<std::uint64_t> sessions_{5};
    ShownPackets shown_;
    std::string warnings_;
    std::string error_;
    std::string told_live_;  // before the end of the connection released what had to wait
};

TEST_F(RelaySessionTest, NewsOfTwoStreamsAreToldInOrder) {
    const std::string first = packet(1, 9, "\2\6");
    const std::string second = packet(1, 9, "\4");
    RelayScript script(kCanGetNews);
    script.attached({2, 3}).add(NewsReply{kOk, 0, 3}, news_of(2, IndexStatus::kOk, first.size())).text(first);
    script.add(news_of(2, IndexStatus::kHangUp), news_of(3, IndexStatus::kOk, second.size())).text(second).metadata();
    script.add(NewsReply{kOk, kNewStreams, 1}, news_of(3, IndexStatus::kHangUp),
               NewStreamsReply{NewStreamsStatus::kHangUp, 0});
    EXPECT_EQ(told_by(script), "2 4 6 ");
    EXPECT_EQ(error_, "");
    EXPECT_EQ(warnings_, "");
}

TEST_F(RelaySessionTest, BeaconLetsTheOthersGoOn) {
    const std::string first = packet(1, 9, "\2\6");
    RelayScript script(kCanGetNews);
    script.attached({2, 3}).add(NewsReply{kOk, 0, 3}, news_of(2, IndexStatus::kOk, first.size())).text(first);
    script.add(news_of(3, IndexStatus::kInactive, 0, 1), news_of(3, IndexStatus::kInactive, 0, 3)).metadata();
    EXPECT_EQ(told_by(script), "2 6 ");  // the rest is told when the relay has gone
    EXPECT_EQ(error_, "GET_NEWS: the relay closed the connection");
}

// Stream 2 gets the error. Stream 3 has no packet and no beacon, and must not hold back stream 4, of another trace.
TEST_F(RelaySessionTest, TraceThatCannotBeReadEndsAndTheOthersGoOn) {
    constexpr std::uint64_t kOtherTrace = kTrace + 1;
    const std::string bytes = packet(1, 9, "\2\6");
    const std::string nonsense = test::kUnreadableMetadata;
    RelayScript script(kCanGetNews);
    script.add(AttachReply{kOk, 5}, StreamDescriptor{.id = kMetadataStream, .trace_id = kTrace, .is_metadata = 1});
    for (const std::uint64_t id : {2, 3})
        script.add(StreamDescriptor{.id = id, .trace_id = kTrace, .path = "p", .channel_name = "c"});
    script.add(StreamDescriptor{.id = 9, .trace_id = kOtherTrace, .is_metadata = 1},
               StreamDescriptor{.id = 4, .trace_id = kOtherTrace, .path = "p", .channel_name = "d"});
    script.add(NewsReply{kOk, 0, 2}, news_of(2, IndexStatus::kOk, bytes.size())).text(bytes);
    script.add(news_of(4, IndexStatus::kOk, bytes.size())).text(bytes);
    script.add(MetadataReply{nonsense.size(), kOk}).text(nonsense).add(MetadataReply{0, MetadataStatus::kNoNew});
    script.metadata();
    EXPECT_EQ(told_by(script), "2 6 ");
    EXPECT_EQ(told_live_, "2 6 ");
    EXPECT_TRUE(warnings_.starts_with("p/c and 1 other stream of its trace: metadata: line 1: ")) << warnings_;
    EXPECT_TRUE(warnings_.ends_with("; the rest of them is not shown")) << warnings_;
}

TEST_F(RelaySessionTest, TraceWithTooMuchMetadataEndsAlone) {
    constexpr std::uint64_t kOtherTrace = kTrace + 1;
    const std::string bytes = packet(1, 9, "\2\6");
    const std::string comment = "/*" + std::string(ctf::kMaxMetadataSize - 2, ' ');
    RelayScript script(kCanGetNews);
    script.add(AttachReply{kOk, 4}, StreamDescriptor{.id = kMetadataStream, .trace_id = kTrace, .is_metadata = 1});
    script.add(StreamDescriptor{.id = 2, .trace_id = kTrace, .path = "p", .channel_name = "c"});
    script.add(StreamDescriptor{.id = 9, .trace_id = kOtherTrace, .is_metadata = 1},
               StreamDescriptor{.id = 4, .trace_id = kOtherTrace, .path = "p", .channel_name = "d"});
    script.add(NewsReply{kOk, 0, 2}, news_of(2, IndexStatus::kOk, bytes.size())).text(bytes);
    script.add(news_of(4, IndexStatus::kOk, bytes.size())).text(bytes);
    script.add(MetadataReply{comment.size(), kOk}).text(comment).add(MetadataReply{2, kOk}).text("*/");
    script.metadata();
    EXPECT_EQ(told_by(script), "2 6 ");
    EXPECT_EQ(error_, "GET_NEWS: the relay closed the connection");
    EXPECT_NE(warnings_.find("a trace cannot be read any further"), std::string::npos) << warnings_;
}

// Two programs of one user share a trace, and the second declares what nobody can read.
TEST_F(RelaySessionTest, LaterDeclarationThatCannotBeReadEndsNobody) {
    const std::string first = packet(1, 9, "\2\6");
    const std::string second = packet(10, 19, std::string{12});
    NewsEntry with_metadata = news_of(2, IndexStatus::kOk, second.size());
    with_metadata.index.flags = kNewMetadata;
    RelayScript script(kCanGetNews);
    script.attached({2, 3}).add(NewsReply{kOk, 0, 1}, news_of(2, IndexStatus::kOk, first.size())).text(first);
    script.metadata().add(NewsReply{kOk, kNewStreams, 3}, with_metadata).text(second);
    script.add(news_of(2, IndexStatus::kHangUp), news_of(3, IndexStatus::kHangUp));
    const std::string nonsense = "nonsense;";
    script.add(NewStreamsReply{NewStreamsStatus::kHangUp, 0}, MetadataReply{nonsense.size(), kOk}).text(nonsense);
    script.add(MetadataReply{0, MetadataStatus::kNoNew});
    EXPECT_EQ(told_by(script), "2 6 12 ");
    EXPECT_EQ(error_, "");
    EXPECT_TRUE(warnings_.starts_with("p/c: metadata: line ")) << warnings_;
    EXPECT_TRUE(warnings_.ends_with("; what is declared there or later is not shown")) << warnings_;
}

// It would hold back stream 4, of another trace, until it has a packet.
TEST_F(RelaySessionTest, StreamThatComesToATraceThatCannotBeReadEndsAtOnce) {
    constexpr std::uint64_t kOtherTrace = kTrace + 1;
    const std::string bytes = packet(1, 9, "\2\6");
    const std::string nonsense = test::kUnreadableMetadata;
    RelayScript script(kCanGetNews);
    script.attached({2}).add(NewsReply{kOk, 0, 1}, news_of(2, IndexStatus::kOk, bytes.size())).text(bytes);
    script.add(MetadataReply{nonsense.size(), kOk}).text(nonsense).add(MetadataReply{0, MetadataStatus::kNoNew});
    script.add(NewsReply{kOk, kNewStreams, 1}, news_of(4, IndexStatus::kOk, bytes.size())).text(bytes);
    script.add(NewStreamsReply{NewStreamsStatus::kOk, 3},
               StreamDescriptor{.id = 3, .trace_id = kTrace, .path = "p", .channel_name = "c"},
               StreamDescriptor{.id = 9, .trace_id = kOtherTrace, .is_metadata = 1},
               StreamDescriptor{.id = 4, .trace_id = kOtherTrace, .path = "p", .channel_name = "d"});
    script.metadata();
    EXPECT_EQ(told_by(script), "2 6 ");
    EXPECT_EQ(told_live_, "2 6 ");
}

TEST_F(RelaySessionTest, BeaconOfATraceThatCannotBeReadEndsIt) {
    const std::string nonsense = test::kUnreadableMetadata;
    RelayScript script(kCanGetNews);
    script.attached({2}).add(NewsReply{kOk, 0, 1}, news_of(2, IndexStatus::kInactive, 0, 3));
    script.add(MetadataReply{nonsense.size(), kOk}).text(nonsense).add(MetadataReply{0, MetadataStatus::kNoNew});
    EXPECT_EQ(told_by(script), "");
    EXPECT_TRUE(warnings_.starts_with("p/c: metadata: line 1: ")) << warnings_;
    EXPECT_TRUE(warnings_.ends_with("; the rest of the stream is not shown")) << warnings_;
}

TEST_F(RelaySessionTest, LargePacketIsFetchedWhileTheRelayHasItsFileOpen) {
    const std::string bytes = packet(1, 9, "\2");
    NewsEntry large = news_of(2, IndexStatus::kOk, bytes.size());
    large.length = 0;
    RelayScript script(kCanGetNews);
    script.attached({2}).add(NewsReply{kOk, 0, 1}, large).metadata();
    // The reply is shorter than requested: the rest is requested again.
    script.add(PacketReply{kOk, 2, 0}).text(bytes.substr(0, 2)).add(PacketReply{kOk, 3, 0}).text(bytes.substr(2));
    script.add(NewsReply{kOk, kNewStreams, 1}, news_of(2, IndexStatus::kHangUp),
               NewStreamsReply{NewStreamsStatus::kHangUp, 0});
    EXPECT_EQ(told_by(script), "2 ");
    EXPECT_EQ(error_, "");
}

// Its file has been rolled away. What had come before it is shown.
TEST_F(RelaySessionTest, LargePacketThatIsRefusedEndsItsStreamBehindWhatHasCome) {
    const std::string bytes = packet(1, 9, "\2");
    NewsEntry large = news_of(2, IndexStatus::kOk, bytes.size());
    large.length = 0;
    RelayScript script(kCanGetNews);
    script.attached({2}).add(NewsReply{kOk, 0, 2}, news_of(2, IndexStatus::kOk, bytes.size())).text(bytes).add(large);
    script.metadata().add(PacketReply{PacketStatus::kError, 0, 0});
    EXPECT_EQ(told_by(script), "2 ");
    EXPECT_NE(warnings_.find("cannot be fetched"), std::string::npos) << warnings_;
}

// It has no descriptor for the packet's file.
TEST_F(RelaySessionTest, LargePacketIsAskedForAgainWhenTheRelaySaysSo) {
    const std::string bytes = packet(1, 9, "\2");
    NewsEntry large = news_of(2, IndexStatus::kOk, bytes.size());
    large.length = 0;
    RelayScript script(kCanGetNews | kCanWait);
    script.attached({2}).add(NewsReply{kOk, 0, 1}, large).metadata().add(PacketReply{PacketStatus::kRetry, 0, 0});
    script.add(WaitReply{.status = WaitStatus::kOk}, PacketReply{kOk, 5, 0}).text(bytes);
    script.add(NewsReply{kOk, kNewStreams, 1}, news_of(2, IndexStatus::kHangUp),
               NewStreamsReply{NewStreamsStatus::kHangUp, 0});
    EXPECT_EQ(told_by(script), "2 ");
    EXPECT_EQ(error_ + warnings_, "");
}

// They were cleared when they had been told of: it would say so for ever.
TEST_F(RelaySessionTest, LargePacketWhoseMetadataWereClearedIsPassedOver) {
    const std::string next = packet(5, 9, "\6");
    NewsEntry large = news_of(2, IndexStatus::kOk, 6);
    large.length = 0;
    RelayScript script(kCanGetNews | kCanWait);
    script.attached({2}).add(NewsReply{kOk, 0, 1}, large).add(MetadataReply{0, MetadataStatus::kNoNew});
    script.add(PacketReply{PacketStatus::kError, 0, kNewMetadata}, MetadataReply{0, MetadataStatus::kNoNew});
    script.add(NewsReply{kOk, 0, 1}, news_of(2, IndexStatus::kOk, next.size())).text(next).metadata();
    script.add(NewsReply{kOk, kNewStreams, 1}, news_of(2, IndexStatus::kHangUp),
               NewStreamsReply{NewStreamsStatus::kHangUp, 0});
    EXPECT_EQ(told_by(script), "6 ");
    EXPECT_EQ(error_ + warnings_, "");
}

TEST_F(RelaySessionTest, LargePacketComesAfterTheMetadataThatCameMeanwhile) {
    const std::string bytes = packet(1, 9, "\2");
    NewsEntry large = news_of(2, IndexStatus::kOk, bytes.size());
    large.length = 0;
    RelayScript script(kCanGetNews | kCanWait);
    script.attached({2}).add(NewsReply{kOk, 0, 1}, large).add(MetadataReply{0, MetadataStatus::kNoNew});
    script.add(PacketReply{PacketStatus::kError, 0, kNewMetadata}).metadata();
    script.add(PacketReply{kOk, static_cast<std::uint32_t>(bytes.size()), 0}).text(bytes);
    script.add(NewsReply{kOk, kNewStreams, 1}, news_of(2, IndexStatus::kHangUp),
               NewStreamsReply{NewStreamsStatus::kHangUp, 0});
    EXPECT_EQ(told_by(script), "2 ");
    EXPECT_EQ(error_ + warnings_, "");
}

// Metadata that cannot be read are not asked for again, whatever the relay says of them.
TEST_F(RelaySessionTest, LargePacketBehindMetadataThatCannotBeReadIsStillWaitedFor) {
    const std::string bytes = packet(1, 9, "\2");
    NewsEntry large = news_of(2, IndexStatus::kOk, bytes.size());
    large.length = 0;
    large.index.flags = kNewMetadata;
    RelayScript script(kCanGetNews | kCanWait);
    script.attached({2}).add(NewsReply{kOk, 0, 1}, news_of(2, IndexStatus::kRetry)).metadata();
    script.add(NewsReply{kOk, 0, 1}, large, MetadataReply{0, MetadataStatus::kError});
    script.add(PacketReply{PacketStatus::kRetry, 0, 0}, WaitReply{.status = WaitStatus::kOk});
    script.add(PacketReply{kOk, static_cast<std::uint32_t>(bytes.size()), 0}).text(bytes);
    script.add(NewsReply{kOk, kNewStreams, 1}, news_of(2, IndexStatus::kHangUp),
               NewStreamsReply{NewStreamsStatus::kHangUp, 0});
    EXPECT_EQ(told_by(script), "2 ");
    EXPECT_EQ(error_ + warnings_, "");
}

TEST_F(RelaySessionTest, StatusThatNobodyKnowsEndsItsStreamAlone) {
    const std::string bytes = packet(1, 9, "\2");
    RelayScript script(kCanGetNews);
    script.attached({2, 3}).add(NewsReply{kOk, 0, 4}, news_of(3, static_cast<IndexStatus>(77)));
    script.add(news_of(3, IndexStatus::kRetry),
               news_of(99, IndexStatus::kHangUp));  // 3 was given up, 99 never announced
    script.add(news_of(2, IndexStatus::kOk, bytes.size())).text(bytes).metadata();
    EXPECT_EQ(told_by(script), "2 ");
    EXPECT_EQ(warnings_, "p/c: the relay answered GET_NEXT_INDEX with status 77; the rest of the stream is not shown");
}

TEST_F(RelaySessionTest, RelayThatWantsItsMetadataFetchedFirstIsAskedAgain) {
    const std::string bytes = packet(1, 9, "\2");
    RelayScript script(0);  // no capabilities: a relay of LTTng's
    const NextIndexReply index{.entry = {.packet_size = bytes.size() * 8}, .status = kOk};
    script.attached({2}).add(index).metadata().add(PacketReply{PacketStatus::kError, 0, kNewMetadata});
    script.add(NewStreamsReply{kOk, 0}, MetadataReply{0, MetadataStatus::kNoNew});
    script.add(PacketReply{kOk, static_cast<std::uint32_t>(bytes.size()), 0}).text(bytes);
    script.add(NextIndexReply{.status = IndexStatus::kHangUp}, NewStreamsReply{NewStreamsStatus::kHangUp, 0});
    EXPECT_EQ(told_by(script), "2 ");
    EXPECT_EQ(error_ + warnings_, "");
}

// Thousands may come and go while another runs: neither the relay nor the viewer keeps anything of them.
TEST_F(RelaySessionTest, SessionThatHasEndedIsLeftWhileAnotherGoesOn) {
    const std::string first = packet(1, 9, "\2\6");
    RelayScript script(kCanGetNews);
    script.attached({2});
    script.add(AttachReply{kOk, 0});
    script.add(NewsReply{kOk, kNewStreams, 2}, news_of(2, IndexStatus::kOk, first.size())).text(first);
    script.add(news_of(2, IndexStatus::kHangUp));
    script.add(NewStreamsReply{NewStreamsStatus::kHangUp, 0}, NewStreamsReply{NewStreamsStatus::kOk, 0});
    script.metadata().add(DetachReply{});
    // What is told of it now is new: it is not known any more.
    script.add(NewsReply{kOk, kNewStreams, 0}, NewStreamsReply{kOk, 2},
               StreamDescriptor{.id = kMetadataStream, .trace_id = kTrace, .is_metadata = 1},
               StreamDescriptor{.id = 2, .trace_id = kTrace, .path = "p", .channel_name = "c"});
    script.metadata().add(NewsReply{kOk, kNewStreams, 2}, news_of(2, IndexStatus::kOk, first.size())).text(first);
    script.add(news_of(2, IndexStatus::kHangUp), NewStreamsReply{NewStreamsStatus::kHangUp, 0});
    sessions_ = {5, 6};
    EXPECT_EQ(told_by(script), "2 6 2 6 ");
    EXPECT_EQ(error_, "");
    EXPECT_EQ(warnings_, "");
}

// Each process of a session may have a trace of its own. What is told of one that has ended is new, as above.
TEST_F(RelaySessionTest, TraceThatHasEndedIsForgottenWhileItsSessionGoesOn) {
    const std::string first = packet(1, 9, "\2\6");
    RelayScript script(kCanGetNews);
    script.attached({2, 3}).add(NewsReply{kOk, 0, 2}, news_of(2, IndexStatus::kOk, first.size())).text(first);
    script.add(news_of(2, IndexStatus::kHangUp)).metadata();
    script.add(NewsReply{kOk, 0, 1}, news_of(3, IndexStatus::kHangUp));
    script.add(NewsReply{kOk, kNewStreams, 0}, NewStreamsReply{kOk, 2},
               StreamDescriptor{.id = kMetadataStream, .trace_id = kTrace, .is_metadata = 1},
               StreamDescriptor{.id = 2, .trace_id = kTrace, .path = "p", .channel_name = "c"});
    script.metadata().add(NewsReply{kOk, 0, 2}, news_of(2, IndexStatus::kOk, first.size())).text(first);
    script.add(news_of(2, IndexStatus::kHangUp));
    script.add(NewsReply{kOk, kNewStreams, 0}, NewStreamsReply{NewStreamsStatus::kHangUp, 0});
    EXPECT_EQ(told_by(script), "2 6 2 6 ");
    EXPECT_EQ(error_, "");
    EXPECT_EQ(warnings_, "");
}

// One of its two streams ends, and the other goes on: so does the trace.
TEST_F(RelaySessionTest, TraceIsKeptAsLongAsTheRelayHasAStreamOfIt) {
    const std::string bytes = packet(1, 9, "\2\6");
    RelayScript script(kCanGetNews);
    const std::string later = packet(10, 19, "\13\17");
    script.attached({2, 3}).add(NewsReply{kOk, 0, 3}, news_of(2, IndexStatus::kOk, bytes.size())).text(bytes);
    script.add(news_of(2, IndexStatus::kHangUp), news_of(3, IndexStatus::kInactive, 0, 9)).metadata();
    script.add(NewsReply{kOk, 0, 2}, news_of(3, IndexStatus::kOk, later.size())).text(later);
    script.add(news_of(3, IndexStatus::kHangUp));
    script.add(NewsReply{kOk, kNewStreams, 0}, NewStreamsReply{NewStreamsStatus::kHangUp, 0});
    EXPECT_EQ(told_by(script), "2 6 11 15 ");
    EXPECT_EQ(error_, "");
    EXPECT_EQ(warnings_, "");
}

// The relay was killed after it had stored two packets that no viewer had seen.
TEST_F(RelaySessionTest, PacketsThatWereMissedBetweenTwoConnectionsAreTold) {
    const auto script_of = [](std::initializer_list<char> numbers) {
        RelayScript script(kCanGetNews);
        script.attached({2}).add(NewsReply{kOk, 0, static_cast<std::uint32_t>(numbers.size())});
        for (const char number : numbers)
            script.add(news_of(2, IndexStatus::kOk, 6)).text({7, 6 * 8, number, number, number, number});
        const std::string metadata = test::numbered_byte_metadata();
        script.add(MetadataReply{metadata.size(), kOk}).text(metadata).add(MetadataReply{0, MetadataStatus::kNoNew});
        return script.add(NewsReply{kOk, kNewStreams, 1}, news_of(2, IndexStatus::kHangUp),
                          NewStreamsReply{NewStreamsStatus::kHangUp, 0});
    };
    EXPECT_EQ(told_by(script_of({1, 2, 3})), "1 2 3 ");
    EXPECT_EQ(warnings_, "");
    EXPECT_EQ(told_by(script_of({2, 3, 4, 6})), "4 6 ");
    EXPECT_EQ(warnings_, "") << "of a gap within a connection the packets tell";
    EXPECT_EQ(told_by(script_of({9, 10})), "9 10 ");
    EXPECT_EQ(warnings_,
              "p/c: 2 packets before this connection are not shown: the relay's files have what it has stored");
    EXPECT_EQ(error_, "");
}

TEST(ShownPackets, PacketThatComesAgainIsNotNew) {
    ShownPackets shown;
    ctf::TraceClass trace;
    trace.uuid.emplace();
    ctf::PacketProperties packet;
    packet.stream_instance_id = 3;
    const auto add = [&](std::uint64_t number, std::uint64_t stream_class = 0) {
        packet.sequence_number = number;
        return shown.add(trace, stream_class, packet);
    };
    EXPECT_EQ(add(3), 0U);
    EXPECT_EQ(add(4), 0U);
    EXPECT_FALSE(add(3)) << "a producer sends it again in its next part";
    EXPECT_FALSE(add(4));
    EXPECT_EQ(add(5), 0U);
    EXPECT_EQ(add(8), 2U) << "6 and 7 have not been seen";
    EXPECT_EQ(add(6), 0U) << "but now";
    EXPECT_EQ(add(7), 0U);
    EXPECT_FALSE(add(6));
    EXPECT_EQ(add(1), 0U) << "what came before the first";
    EXPECT_FALSE(add(8));
    EXPECT_EQ(add(9), 0U);
    EXPECT_EQ(add(0, 1), 0U) << "another stream class";
    packet.stream_instance_id = 4;
    EXPECT_EQ(add(0), 0U) << "another stream";
    trace.uuid.emplace()[0] = 1;
    EXPECT_EQ(add(0), 0U) << "another trace";
}

TEST(ShownPackets, StreamsThatHadNoneForLongAreForgotten) {
    constexpr std::size_t kStreams = 100;
    ShownPackets shown(kStreams);
    ctf::TraceClass trace;
    trace.uuid.emplace();
    ctf::PacketProperties packet;
    const auto add = [&](std::uint64_t stream, std::uint64_t number) {
        packet.stream_instance_id = stream;
        packet.sequence_number = number;
        return shown.add(trace, 0, packet);
    };
    std::uint64_t next_stream = 1'000'000;
    const auto add_others = [&](std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) (void)add(next_stream++, 0);
    };
    EXPECT_EQ(add(1, 7), 0U);
    add_others(kStreams);
    EXPECT_FALSE(add(1, 7)) << "so many are remembered";
    add_others(2 * kStreams - 2);  // one more, and those before the last kStreams are forgotten
    EXPECT_FALSE(add(1, 7)) << "and counted from the last packet on";
    add_others(2 * kStreams);
    EXPECT_EQ(add(1, 7), 0U) << "forgotten";
}

}  // namespace
}  // namespace leat::viewer
