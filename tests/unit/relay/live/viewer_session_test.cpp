#include "relay/live/viewer_session.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "support/local_producer.hpp"
#include "trace/sync_file.hpp"

namespace leat::relay {
namespace {

using wire::IndexStatus;
using wire::MetadataStatus;
using wire::PacketStatus;
using wire::Seek;

class ViewerSessionTest : public testing::Test {
  protected:
    ViewerSessionTest() {
        producer.begin_session();
        metadata = producer.add_stream("metadata");
        data = producer.add_stream("channel_0");
    }

    // The data streams by the names of their channels; a metadata stream is called "metadata".
    template <class Status>
    std::string names(const ViewerSession::Streams<Status>& told) {
        std::string text;
        for (const wire::StreamDescriptor& stream : told.streams) {
            text += stream.channel_name + " ";
            ids[stream.channel_name] = stream.id;
        }
        return text;
    }
    std::string attach(Seek seek = Seek::kBeginning) {
        return names(viewer.attach({.session_id = id(), .seek = seek}));
    }
    std::string new_streams() { return names(viewer.new_streams(id())); }
    std::uint64_t id() { return producer.session().description().id; }

    // The text of the next packet, or the reason why there is none.
    std::string next(const std::string& channel = "channel_0") {
        const auto index = viewer.next_index(ids.at(channel));
        if (index.status == IndexStatus::kInactive) return fmt::format("quiet until {}", index.entry.timestamp_end);
        if (index.status != IndexStatus::kOk) return fmt::format("({})", index.status);
        return packet({ids.at(channel), index.entry.offset, static_cast<std::uint32_t>(index.entry.packet_size / 8)});
    }
    std::string packet(const wire::GetPacket& request) {
        const auto answer = viewer.packet(request);
        if (!answer.data) return fmt::format("({}, flags {})", answer.reply.status, answer.reply.flags);
        return read(*answer.data);
    }
    std::string next_metadata() {
        const auto answer = viewer.metadata(ids.at("metadata"));
        return answer.text ? read(*answer.text) : fmt::format("({})", answer.reply.status);
    }
    static std::string read(const FileRange& range) {
        std::string text(range.size, '\0');
        EXPECT_EQ(::pread(range.fd, text.data(), text.size(), static_cast<off_t>(range.offset)),
                  static_cast<ssize_t>(text.size()));
        return text;
    }

    test::ScratchDirectory scratch;
    Relay relay{*ConfinedDirectory::open_root(scratch.path().string())};
    test::LocalProducer producer{relay};
    std::uint64_t metadata = 0;  // handles
    std::uint64_t data = 0;
    ViewerSession viewer{relay, [] {}};
    std::map<std::string, std::uint64_t> ids;  // that the viewer was told, by channel
};

TEST_F(ViewerSessionTest, StreamsAreToldWhenTheyArePublished) {
    EXPECT_EQ(attach(), "") << "STREAMS_SENT has not come";
    EXPECT_EQ(new_streams(), "");
    producer.publish();
    EXPECT_EQ(new_streams(), "metadata channel_0 ");
    producer.add_stream("channel_1");
    EXPECT_EQ(new_streams(), "");
    producer.publish();
    EXPECT_EQ(new_streams(), "channel_1 ");
}

TEST_F(ViewerSessionTest, PacketIsNotGivenBeforeTheMetadataThatItNeeds) {
    producer.publish();
    ASSERT_EQ(attach(), "metadata channel_0 ");
    producer.send_metadata(metadata, "trace");
    producer.end_metadata_message(metadata);
    producer.send_packet(data, 0, "packet");
    const auto index = viewer.next_index(ids.at("channel_0"));
    EXPECT_EQ(index.flags, wire::kNewMetadata);
    const wire::GetPacket request{ids.at("channel_0"), index.entry.offset, 6};
    EXPECT_EQ(packet(request), fmt::format("({}, flags {})", PacketStatus::kError, wire::kNewMetadata));
    EXPECT_EQ(next_metadata(), "trace");
    EXPECT_EQ(packet(request), "packet");
}

TEST_F(ViewerSessionTest, PacketWhoseMetadataWasClearedIsNewsWhenItIsSentAgain) {
    const auto rotate = [&](std::uint64_t stream, std::optional<std::uint64_t> chunk) {
        wire::RotateStreams message{.new_chunk_id = chunk};
        message.positions.push_back({stream, 0});
        producer.run(wire::RelayCommand::kRotateStreams, message);
    };
    producer.publish();
    ASSERT_EQ(attach(), "metadata channel_0 ");
    producer.send_metadata(metadata, "trace");
    producer.end_metadata_message(metadata);
    producer.run(wire::RelayCommand::kCreateTraceChunk, wire::CreateTraceChunk{.chunk_id = 1});
    rotate(metadata, std::nullopt);
    rotate(data, 1);
    producer.run(wire::RelayCommand::kCloseTraceChunk,
                 wire::CloseTraceChunk{.chunk_id = 0, .command = wire::ChunkCommand::kDelete});
    producer.send_packet(data, 0, "packet");
    EXPECT_EQ(next(), fmt::format("({})", IndexStatus::kRetry));
    EXPECT_TRUE(viewer.news(1).entries.empty());
    rotate(metadata, 1);
    producer.send_metadata(metadata, "trace");
    producer.end_metadata_message(metadata);
    const auto news = viewer.news(1);
    ASSERT_EQ(news.entries.size(), 1U);
    EXPECT_EQ(news.entries[0].head.index.flags, wire::kNewMetadata);
    EXPECT_EQ(next_metadata(), "trace");
}

TEST_F(ViewerSessionTest, MetadataIsSeenByTheMessage) {
    const std::string no_new = fmt::format("({})", MetadataStatus::kNoNew);
    producer.publish();
    ASSERT_EQ(attach(), "metadata channel_0 ");
    producer.send_metadata(metadata, "half");
    EXPECT_EQ(next_metadata(), no_new);
    producer.send_metadata(metadata, " and half");
    EXPECT_EQ(next_metadata(), no_new);
    producer.end_metadata_message(metadata);
    EXPECT_EQ(next_metadata(), "half and half");
}

TEST_F(ViewerSessionTest, LostPacketsAreNotTold) {
    producer.publish();
    ASSERT_EQ(attach(), "metadata channel_0 ");
    producer.send_packet(data, 0, "first");
    producer.send_index(data, 1, 6);  // its data does not come
    producer.send_packet(data, 2, "third");
    ASSERT_EQ(producer.stream(data).lost_packets(), 1U);
    EXPECT_EQ(next(), "first");
    EXPECT_EQ(next(), "third");
    EXPECT_EQ(next(), fmt::format("({})", IndexStatus::kRetry));
}

TEST_F(ViewerSessionTest, FromNowOnLeavesOutWhatIsThere) {
    producer.publish();
    producer.send_packet(data, 0, "before");
    ASSERT_EQ(attach(Seek::kLast), "metadata channel_0 ");
    EXPECT_EQ(next(), fmt::format("({})", IndexStatus::kRetry));
    producer.send_packet(data, 1, "after");
    EXPECT_EQ(next(), "after");
}

TEST_F(ViewerSessionTest, PacketIsToldWhenDataAndIndexAreThere) {
    const std::string retry = fmt::format("({})", IndexStatus::kRetry);
    producer.publish();
    ASSERT_EQ(attach(), "metadata channel_0 ");
    producer.send_data(data, 0, "packet");
    EXPECT_EQ(next(), retry);
    producer.send_index(data, 0, 6);
    EXPECT_EQ(next(), "packet");
    producer.send_index(data, 1, 6);
    EXPECT_EQ(next(), retry);
}

// Viewers and followers print up to the horizon.
TEST_F(ViewerSessionTest, HorizonOfATraceIsThatOfItsLastStream) {
    const std::uint64_t other = producer.add_stream("channel_1");
    producer.publish();
    const auto trace = scratch.path() / producer.session().directory()->path() / "ust";
    const auto sync = trace::SyncReader::open(trace);
    ASSERT_TRUE(sync && *sync);
    producer.send_packet(data, 0, "packet", 500);
    EXPECT_EQ((*sync)->read()->horizon, 0U) << "of the other stream nothing is known";
    producer.send_packet(other, 0, "packet", 300);
    EXPECT_EQ((*sync)->read()->horizon, 300U);
    producer.send_packet(other, 1, "packet", 900);
    EXPECT_EQ((*sync)->read()->horizon, 500U);
    producer.close_stream(data);
    producer.send_packet(other, 2, "packet", 950);
    EXPECT_EQ((*sync)->read()->horizon, 950U) << "the other stream has ended";
}

TEST_F(ViewerSessionTest, SessionThatHasEndedHangsUpWhenAllHasBeenRead) {
    const std::string hang_up = fmt::format("({})", IndexStatus::kHangUp);
    producer.publish();
    ASSERT_EQ(attach(), "metadata channel_0 ");
    producer.send_packet(data, 0, "last");
    end_producer(producer.producer());
    producer.session().end_data(std::chrono::steady_clock::now());
    producer.session().finish_streams(std::chrono::steady_clock::now());
    const auto status = [&] { return viewer.new_streams(id()).reply.status; };
    EXPECT_EQ(status(), wire::NewStreamsStatus::kOk) << "a packet is still to be read";
    EXPECT_EQ(next(), "last");
    EXPECT_EQ(next(), hang_up);
    EXPECT_EQ(status(), wire::NewStreamsStatus::kHangUp);
    EXPECT_EQ(relay.find_session(id()), nullptr) << "no other viewer finds it";
}

// The list of changes no longer has these streams.
TEST_F(ViewerSessionTest, StreamsThatWereForgottenMeanwhileAreToldAllTheSame) {
    constexpr std::size_t kMany = StoredSession::kMaxFinished + 10;
    std::vector<std::uint64_t> handles;
    for (std::size_t i = 0; i < kMany; ++i) handles.push_back(producer.add_stream(fmt::format("other_{}", i)));
    producer.publish();
    attach();
    while (!viewer.news(1 << 20).is_empty()) {
    }
    for (const std::uint64_t handle : handles) {
        producer.send_packet(handle, 0, "packet");
        producer.close_stream(handle);
    }
    std::size_t packets = 0;
    std::size_t ends = 0;
    for (auto news = viewer.news(1 << 20); !news.entries.empty(); news = viewer.news(1 << 20))
        for (const auto& entry : news.entries) ++(entry.head.index.status == IndexStatus::kOk ? packets : ends);
    EXPECT_EQ(packets, kMany);
    EXPECT_EQ(ends, kMany);
}

}  // namespace
}  // namespace leat::relay
