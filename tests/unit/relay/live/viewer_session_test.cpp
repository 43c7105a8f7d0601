#include "relay/live/viewer_session.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "ctf/metadata/metadata_packets.hpp"
#include "support/descriptor_limit.hpp"
#include "support/local_producer.hpp"
#include "support/open_descriptors.hpp"
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
        return answer.reply.status == MetadataStatus::kOk ? bytes_of(answer) : fmt::format("({})", answer.reply.status);
    }
    static std::string bytes_of(const ViewerSession::ServedMetadata& answer) {
        std::string bytes(reinterpret_cast<const char*>(answer.head.data()), answer.head.size());
        if (answer.text) bytes += read(*answer.text);
        EXPECT_EQ(bytes.size(), answer.reply.length);
        return bytes;
    }
    // All that is new to this viewer, until there is no more.
    static std::string all_metadata(ViewerSession& viewer, std::uint64_t id) {
        std::string bytes;
        for (;;) {
            const auto answer = viewer.metadata(id);
            if (answer.text) bytes += bytes_of(answer);
            if (!answer.text && !answer.must_go_on) return bytes;
        }
    }
    void send_metadata(std::string_view text) {
        producer.send_metadata(metadata, text);
        producer.end_metadata_message(metadata);
    }
    // As a rotation does. All metadata comes again.
    void rotate_metadata(std::uint64_t chunk) {
        producer.run(wire::RelayCommand::kCreateTraceChunk,
                     wire::CreateTraceChunk{.chunk_id = chunk, .creation_time = chunk});
        wire::RotateStreams message{.new_chunk_id = chunk};
        message.positions.push_back({metadata, 0});
        producer.run(wire::RelayCommand::kRotateStreams, message);
        // Two may be open.
        producer.run(wire::RelayCommand::kCloseTraceChunk, wire::CloseTraceChunk{.chunk_id = chunk - 1});
    }
    static std::string packet_of(std::string_view text, std::size_t size) {
        std::string packet(size, '\0');
        const auto put = [&](std::size_t at, std::uint32_t value) { std::memcpy(&packet[at], &value, sizeof value); };
        put(0, ctf::kMetadataMagic);
        put(24, static_cast<std::uint32_t>(8 * (ctf::kMetadataPacketHeaderSize + text.size())));
        put(28, static_cast<std::uint32_t>(8 * size));
        return packet.replace(ctf::kMetadataPacketHeaderSize, text.size(), text);
    }
    // The text of whole packets.
    static std::string text_of(std::string_view bytes) {
        std::string text;
        while (!bytes.empty()) {
            std::array<std::uint32_t, 2> sizes{};  // content, packet; in bits
            if (bytes.size() < ctf::kMetadataPacketHeaderSize) return text + " (half a header)";
            std::memcpy(sizes.data(), &bytes[24], sizeof sizes);
            if (bytes.size() < sizes[1] / 8 || sizes[0] > sizes[1]) return text + " (half a packet)";
            text += bytes.substr(ctf::kMetadataPacketHeaderSize, sizes[0] / 8 - ctf::kMetadataPacketHeaderSize);
            bytes.remove_prefix(sizes[1] / 8);
        }
        return text;
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

// They may have older events. But babeltrace2 2.0 does not see that there are streams to ask for while one is quiet.
TEST_F(ViewerSessionTest, BeaconsAreHeldBackForAWhileWhereThereAreStreamsToAskFor) {
    constexpr int kTimes = 10;
    const std::string retry = fmt::format("({})", IndexStatus::kRetry);
    producer.publish();
    ASSERT_EQ(attach(), "metadata channel_0 ");
    producer.send_packet(data, 0, "packet", 1);
    EXPECT_EQ(next(), "packet");
    producer.send_index(data, 0, 0, 5);
    EXPECT_EQ(next(), "quiet until 5");
    for (const char* const channel : {"channel_1", "channel_2"}) {
        producer.add_stream(channel);
        producer.publish();
        for (int i = 0; i < kTimes; ++i) EXPECT_EQ(next(), retry) << channel << i;
        EXPECT_EQ(next(), "quiet until 5");
        EXPECT_EQ(next(), "quiet until 5");
        EXPECT_EQ(new_streams(), std::string(channel) + " ");
        EXPECT_EQ(next(), "quiet until 5");
    }
}

TEST_F(ViewerSessionTest, NewsHaveBeaconsBesideStreamsToAskFor) {
    producer.publish();
    ASSERT_EQ(attach(), "metadata channel_0 ");
    producer.add_stream("channel_1");
    producer.publish();
    producer.send_index(data, wire::kNoPacket, 0, 5);
    const ViewerSession::News news = viewer.news(1000);
    EXPECT_EQ(news.flags, wire::kNewStreams);
    ASSERT_EQ(news.entries.size(), 1U);
    EXPECT_EQ(news.entries.front().head.index.status, IndexStatus::kInactive);
}

// Also where it asks for all indexes first, and for the packets afterwards.
TEST_F(ViewerSessionTest, ViewerOfManyStreamsKeepsFewFilesOpen) {
    constexpr int kStreams = 200;
    std::vector<std::string> channels;
    for (int i = 0; i < kStreams; ++i) {
        const std::uint64_t handle = producer.add_stream(channels.emplace_back(fmt::format("many_{}", i)));
        producer.send_packet(handle, 0, "packet");
        producer.close_stream(handle);
    }
    producer.publish();
    attach();
    const std::size_t before = test::open_descriptors();
    for (const std::string& channel : channels) EXPECT_EQ(viewer.next_index(ids.at(channel)).status, IndexStatus::kOk);
    for (const std::string& channel : channels) EXPECT_EQ(packet({ids.at(channel), 0, 6}), "packet");
    EXPECT_LE(test::open_descriptors(), before + 2 * 64);
}

TEST_F(ViewerSessionTest, ViewerThatComesAtTheEndKeepsNoFilesOpen) {
    std::vector<std::uint64_t> handles;
    for (int i = 0; i < 200; ++i) {
        handles.push_back(producer.add_stream(fmt::format("many_{}", i)));
        producer.send_packet(handles.back(), 0, "packet");
    }
    producer.publish();
    const std::size_t before = test::open_descriptors();
    attach(Seek::kLast);
    for (const std::uint64_t handle : handles) producer.close_stream(handle);
    EXPECT_LE(test::open_descriptors() + handles.size(), before);
}

// Viewers give a trace up whose metadata they are told to be broken.
TEST_F(ViewerSessionTest, MetadataForWhichThereIsNoDescriptorComesLater) {
    send_metadata("trace");
    producer.publish();
    attach();
    producer.close_stream(metadata);
    {
        const test::NoDescriptorLeft none;
        const auto answer = viewer.metadata(ids.at("metadata"));
        EXPECT_EQ(answer.reply.status, MetadataStatus::kNoNew);
        EXPECT_TRUE(answer.must_wait);
    }
    EXPECT_EQ(next_metadata(), "trace");
}

// A clear may take it away between index and packet.
TEST_F(ViewerSessionTest, FileInUseStaysOpenHoweverOftenOthersAreAskedFor) {
    std::vector<std::string> channels{"first", "second", "third"};
    for (const std::string& channel : channels) producer.send_packet(producer.add_stream(channel), 0, "packet");
    producer.publish();
    attach();
    for (const std::string& channel : channels) ASSERT_EQ(viewer.next_index(ids.at(channel)).status, IndexStatus::kOk);
    for (int i = 0; i < 200; ++i)
        for (const std::string& channel : {channels[1], channels[2]}) (void)viewer.next_index(ids.at(channel));
    std::filesystem::remove_all(scratch.path());
    EXPECT_EQ(packet({ids.at("first"), 0, 6}), "packet");
}

TEST_F(ViewerSessionTest, FilesOfASessionThatItLeavesAreForgotten) {
    constexpr int kStreams = 200;
    std::vector<std::string> channels;
    for (int i = 0; i < kStreams; ++i)
        producer.send_packet(producer.add_stream(channels.emplace_back(fmt::format("many_{}", i))), 0, "packet");
    producer.publish();
    const std::size_t before = test::open_descriptors();
    for (int times = 0; times < 3; ++times) {
        attach();
        for (int i = 0; i < kStreams; i += times + 1)
            EXPECT_EQ(viewer.next_index(ids.at(channels[static_cast<std::size_t>(i)])).status, IndexStatus::kOk);
        EXPECT_EQ(viewer.detach(id()), wire::DetachStatus::kOk);
        EXPECT_EQ(test::open_descriptors(), before);
    }
    // The oldest that was open then.
    attach();
    const std::string& oldest = channels[kStreams - 64 * 3 + 1];
    ASSERT_EQ(viewer.next_index(ids.at(oldest)).status, IndexStatus::kOk);
    std::filesystem::remove_all(scratch.path());
    EXPECT_EQ(packet({ids.at(oldest), 0, 6}), "packet");
}

// babeltrace2 has given the trace up by then.
TEST_F(ViewerSessionTest, StreamsThatComeWhenAllOthersHaveEndedAreAnotherTrace) {
    const std::string hang_up = fmt::format("({})", IndexStatus::kHangUp);
    producer.publish();
    ASSERT_EQ(attach(), "metadata channel_0 ");
    send_metadata("trace");
    for (const bool is_metadata_closed : {false, true}) {
        EXPECT_EQ(next_metadata(), "trace");
        producer.send_packet(data, 0, "packet");
        EXPECT_EQ(next(), "packet");
        producer.close_stream(data);
        EXPECT_EQ(next(), hang_up);
        if (is_metadata_closed) {
            producer.close_stream(metadata);
            metadata = producer.add_stream("metadata");
            send_metadata("trace");
        }
        data = producer.add_stream("channel_0");
        producer.publish();
        const auto before = ids;
        EXPECT_EQ(new_streams(), "metadata channel_0 ");
        EXPECT_NE(ids.at("metadata"), before.at("metadata"));
    }
    EXPECT_EQ(next_metadata(), "trace");
    producer.add_stream("channel_1");
    producer.publish();
    EXPECT_EQ(new_streams(), "channel_1 ") << "the trace is not over yet";
}

TEST_F(ViewerSessionTest, WhoComesAfterMetadataWasDeclaredAgainIsToldOfAll) {
    producer.publish();
    ASSERT_EQ(attach(), "metadata channel_0 ");
    producer.send_packet(data, 0, "first");
    EXPECT_EQ(next(), "first");
    producer.close_stream(metadata);
    producer.close_stream(data);
    metadata = producer.add_stream("metadata");
    data = producer.add_stream("channel_0");
    producer.publish();
    send_metadata("again");
    ViewerSession later(relay, [] {});
    EXPECT_EQ(names(later.attach({.session_id = id(), .seek = Seek::kBeginning})), "metadata channel_0 channel_0 ");
    EXPECT_EQ(all_metadata(later, ids.at("metadata")), "again");
    producer.send_packet(data, 0, "second");
    EXPECT_EQ(later.next_index(ids.at("channel_0")).status, IndexStatus::kOk);
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

class ViewerBehindTest : public ViewerSessionTest {
  protected:
    // Attached, with two packets before it that it has not read.
    ViewerBehindTest() {
        producer.publish();
        attach();
        send_metadata("trace");
        producer.send_packet(data, 0, "one");
        producer.send_packet(data, 1, "two");
    }
    // Into the chunk of this number, which begins with the packet of that number; the one before goes to the archives,
    // or wherever.
    void rotate(std::uint64_t chunk, std::uint64_t packet,
                wire::ChunkCommand command = wire::ChunkCommand::kMoveToArchives) {
        producer.run(wire::RelayCommand::kCreateTraceChunk,
                     wire::CreateTraceChunk{.chunk_id = chunk, .creation_time = chunk});
        wire::RotateStreams message{.new_chunk_id = chunk};
        message.positions = {{metadata, 0}, {data, packet}};
        producer.run(wire::RelayCommand::kRotateStreams, message);
        producer.run(wire::RelayCommand::kCloseTraceChunk,
                     wire::CloseTraceChunk{.chunk_id = chunk - 1, .command = command});
        producer.show();
    }
    const std::string retry = fmt::format("({})", IndexStatus::kRetry);
};

TEST_F(ViewerBehindTest, ReadsTheChunkThatWasRotated) {
    EXPECT_EQ(next_metadata(), "trace");
    EXPECT_EQ(next(), "one");
    rotate(1, 2);
    EXPECT_EQ(next(), "two");
    EXPECT_EQ(next(), retry);
    send_metadata("trace");
    producer.send_packet(data, 2, "three");
    EXPECT_EQ(next(), "three");
    EXPECT_EQ(next(), retry);
}

TEST_F(ViewerBehindTest, ReadsAllOfSeveralChunks) {
    EXPECT_EQ(next_metadata(), "trace");
    for (std::uint64_t chunk = 1; chunk < 5; ++chunk) {
        rotate(chunk, chunk + 1);
        send_metadata("trace");
        if (chunk != 3) producer.send_packet(data, chunk + 1, fmt::format("in {}", chunk));
    }
    std::string all;
    for (std::string text; (text = next()) != retry;) all += text + " ";
    EXPECT_EQ(all, "one two in 1 in 2 in 4 ");
}

TEST_F(ViewerBehindTest, WhoWasThereBeforeTheFirstPacketReadsIt) {
    const auto other = producer.add_stream("channel_1");
    producer.publish();
    EXPECT_EQ(new_streams(), "channel_1 ");
    EXPECT_EQ(next_metadata(), "trace");
    producer.send_packet(other, 0, "first");
    producer.run(wire::RelayCommand::kCreateTraceChunk, wire::CreateTraceChunk{.chunk_id = 1});
    wire::RotateStreams message{.new_chunk_id = 1};
    message.positions = {{other, 1}};
    producer.run(wire::RelayCommand::kRotateStreams, message);
    producer.show();
    EXPECT_EQ(next("channel_1"), "first");
    ViewerSession later(relay, [] {});
    names(later.attach({.session_id = id(), .seek = Seek::kBeginning}));
    EXPECT_EQ(later.next_index(ids.at("channel_1")).status, IndexStatus::kRetry) << "it came after that";
}

TEST_F(ViewerBehindTest, WaitsForTheMetadataThatItHasNotRead) {
    rotate(1, 2);
    EXPECT_EQ(next(), retry);
    send_metadata("tra");
    EXPECT_EQ(next_metadata(), "tra");
    EXPECT_EQ(next(), retry);
    send_metadata("ce");
    EXPECT_EQ(viewer.next_index(ids.at("channel_0")).flags, wire::kNewMetadata);
    EXPECT_EQ(next_metadata(), "ce");
    EXPECT_EQ(next(), "two");
}

TEST_F(ViewerBehindTest, MetadataThatDoesNotComeAgainIsNotWaitedForBehindTheNextPacket) {
    rotate(1, 2);
    send_metadata("tra");
    EXPECT_EQ(next_metadata(), "tra");
    producer.send_packet(data, 2, "three");
    EXPECT_EQ(next(), "one");
}

// The data of the packets before may still be on its way.
TEST_F(ViewerBehindTest, WaitsForTheMetadataWhileOnlyThatIsInTheNextChunk) {
    rotate_metadata(1);
    EXPECT_EQ(next(), retry);
    EXPECT_TRUE(viewer.news(1).is_empty());
    send_metadata("trace");
    EXPECT_EQ(viewer.news(1).entries.size(), 1U);
}

TEST_F(ViewerBehindTest, GoesOverPacketsWhoseMetadataWillNotComeAgain) {
    rotate(1, 2);
    producer.close_stream(metadata);
    EXPECT_EQ(next(), retry);
    EXPECT_TRUE(viewer.must_go_on());
    EXPECT_EQ(next(), retry);
    EXPECT_TRUE(viewer.must_go_on());
    EXPECT_EQ(next(), retry);
    EXPECT_FALSE(viewer.must_go_on());
}

TEST_F(ViewerBehindTest, DoesNotReadWhatWasCleared) {
    EXPECT_EQ(next_metadata(), "trace");
    EXPECT_EQ(next(), "one");
    rotate(1, 2, wire::ChunkCommand::kDelete);
    EXPECT_EQ(next(), retry);
    send_metadata("trace");
    producer.send_packet(data, 2, "three");
    EXPECT_EQ(next(), "three");
}

TEST_F(ViewerBehindTest, DoesNotLookForFilesThatSomebodyHasRemoved) {
    EXPECT_EQ(next_metadata(), "trace");
    rotate(1, 2);
    std::filesystem::remove_all(scratch.path() / producer.session().directory()->path() / "archives");
    EXPECT_EQ(next(), retry);
    send_metadata("trace");
    producer.send_packet(data, 2, "three");
    EXPECT_EQ(next(), "three");
}

// babeltrace2 waits for the metadata of each trace that it was told of.
TEST_F(ViewerSessionTest, TraceThatIsOverAndWasClearedIsNotWaitedFor) {
    producer.publish();
    ASSERT_EQ(attach(), "metadata channel_0 ");
    send_metadata("trace");
    producer.send_packet(data, 0, "packet");
    producer.close_stream(metadata);
    producer.close_stream(data);
    producer.run(wire::RelayCommand::kCreateTraceChunk, wire::CreateTraceChunk{.chunk_id = 1});
    producer.run(wire::RelayCommand::kCloseTraceChunk,
                 wire::CloseTraceChunk{.chunk_id = 0, .command = wire::ChunkCommand::kDelete});
    EXPECT_TRUE(next_metadata().starts_with("/* CTF 1.8 */")) << "it would wait for another";
    EXPECT_EQ(next_metadata(), fmt::format("({})", MetadataStatus::kError)) << "there will be no more";
    EXPECT_EQ(next(), fmt::format("({})", IndexStatus::kHangUp));
    ViewerSession later(relay, [] {});
    EXPECT_EQ(names(later.attach({.session_id = id(), .seek = Seek::kBeginning})), "");
}

// Its only program was killed before it sent any.
TEST_F(ViewerSessionTest, TraceThatEndsBeforeItsTextIsNotWaitedFor) {
    producer.publish();
    ASSERT_EQ(attach(), "metadata channel_0 ");
    EXPECT_EQ(next_metadata(), fmt::format("({})", MetadataStatus::kNoNew));
    producer.close_stream(metadata);
    producer.close_stream(data);
    EXPECT_TRUE(next_metadata().starts_with("/* CTF 1.8 */"));
    EXPECT_EQ(next_metadata(), fmt::format("({})", MetadataStatus::kError));
    EXPECT_EQ(next(), fmt::format("({})", IndexStatus::kHangUp));
    ViewerSession later(relay, [] {});
    EXPECT_EQ(names(later.attach({.session_id = id(), .seek = Seek::kBeginning})), "");
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

// LTTng's first packets, without events, may come before their stream class is declared. babeltrace2 fails there; and
// at the first beacon, if the first text had no stream.
TEST_F(ViewerSessionTest, NothingIsShownBeforeItsStreamClassIsDeclared) {
    const std::string no_new = fmt::format("({})", MetadataStatus::kNoNew);
    const std::string retry = fmt::format("({})", IndexStatus::kRetry);
    producer.publish();
    ASSERT_EQ(attach(), "metadata channel_0 ");
    EXPECT_EQ(next_metadata(), no_new);
    send_metadata("/* CTF 1.8 */ trace {};");
    producer.send_packet(data, 0, "packet");
    EXPECT_EQ(next_metadata(), no_new);
    EXPECT_EQ(next(), retry);
    send_metadata(" stream { id = 1; };");
    EXPECT_EQ(next_metadata(), "/* CTF 1.8 */ trace {}; stream { id = 1; };");
    EXPECT_EQ(next(), retry) << "its class is 0";
    EXPECT_TRUE(viewer.news(1000).entries.empty());
    send_metadata(" stream { id = 0; };");
    EXPECT_EQ(viewer.news(1000).entries.size(), 1U);
    EXPECT_EQ(next_metadata(), " stream { id = 0; };");
}

TEST_F(ViewerSessionTest, TextWithoutAStreamIsNotWithheldForEver) {
    constexpr int kTimes = 50;
    const std::string text = "/* CTF 1.8 */ trace {};";
    producer.publish();
    ASSERT_EQ(attach(), "metadata channel_0 ");
    send_metadata(text);
    for (int i = 0; i < kTimes; ++i) EXPECT_EQ(next_metadata(), fmt::format("({})", MetadataStatus::kNoNew));
    EXPECT_EQ(next_metadata(), text);
}

TEST_F(ViewerSessionTest, WhatIsNeverDeclaredIsShownWhenTheMetadataEnd) {
    const std::string text = "/* CTF 1.8 */ trace {};";
    producer.publish();
    ASSERT_EQ(attach(), "metadata channel_0 ");
    send_metadata(text);
    producer.send_packet(data, 0, "packet");
    EXPECT_EQ(next(), fmt::format("({})", IndexStatus::kRetry));
    producer.close_stream(metadata);
    EXPECT_EQ(next_metadata(), text);
    EXPECT_EQ(next(), "packet");
}

// What was declared to a viewer stays so for that one, also while the text comes again.
TEST_F(ViewerSessionTest, RotationTakesNoDeclarationBack) {
    const std::string trace = "/* CTF 1.8 */ trace {};";
    const std::string stream = " stream { id = 0; };";
    producer.publish();
    ASSERT_EQ(attach(), "metadata channel_0 ");
    ViewerSession other(relay, [] {});
    const auto told = other.attach({.session_id = id(), .seek = Seek::kBeginning});
    ASSERT_EQ(told.streams.size(), 2U);
    send_metadata(trace);
    send_metadata(stream);
    EXPECT_EQ(next_metadata(), trace + stream);
    producer.send_packet(data, 0, "packet");
    rotate_metadata(1);
    send_metadata(trace);
    EXPECT_EQ(next(), "packet");
    EXPECT_EQ(other.next_index(told.streams[1].id).status, IndexStatus::kRetry);
    send_metadata(stream);
    EXPECT_EQ(other.next_index(told.streams[1].id).status, IndexStatus::kOk);
}

TEST_F(ViewerSessionTest, MetadataThatAreReopenedDeclareAnew) {
    const std::string trace = "/* CTF 1.8 */ trace {};";
    const std::string stream = " stream { id = 0; };";
    producer.publish();
    ASSERT_EQ(attach(), "metadata channel_0 ");
    send_metadata(trace + stream);
    EXPECT_EQ(next_metadata(), trace + stream);
    producer.close_stream(metadata);
    metadata = producer.add_stream("metadata");
    send_metadata(trace);
    EXPECT_EQ(next_metadata(), trace);
    producer.send_packet(data, 0, "packet");
    EXPECT_EQ(next(), fmt::format("({})", IndexStatus::kRetry));
    send_metadata(stream);
    EXPECT_EQ(next_metadata(), stream);
    EXPECT_EQ(next(), "packet");
}

// Each viewer gets each piece of text once, in whole packets, wherever it is when the text comes again.
TEST_F(ViewerSessionTest, MetadataThatIsPackedAnewGoesOnWhereEachViewerIs) {
    producer.publish();
    ASSERT_EQ(attach(), "metadata channel_0 ");
    ViewerSession other(relay, [] {});
    const auto told = other.attach({.session_id = id(), .seek = Seek::kBeginning});
    ASSERT_EQ(told.streams.size(), 2U);
    const std::uint64_t others = told.streams[0].id;
    send_metadata(packet_of("ab", 64));
    EXPECT_EQ(text_of(all_metadata(viewer, ids.at("metadata"))), "ab");
    send_metadata(packet_of("cd", 64));
    rotate_metadata(1);
    EXPECT_EQ(all_metadata(viewer, ids.at("metadata")), "");
    EXPECT_EQ(all_metadata(other, others), "");
    send_metadata(packet_of("a", 100));
    EXPECT_EQ(all_metadata(viewer, ids.at("metadata")), "") << "it has more already";
    send_metadata(packet_of("bc", 100) + packet_of("", 50));
    EXPECT_EQ(text_of(next_metadata()), "c") << "the rest of a packet is one";
    send_metadata(packet_of("def", 40));
    EXPECT_EQ(text_of(all_metadata(viewer, ids.at("metadata"))), "def");
    EXPECT_EQ(text_of(all_metadata(other, others)), "abcdef");
    rotate_metadata(2);
    send_metadata(packet_of("abcdef", 64) + packet_of("gh", 64));
    EXPECT_EQ(text_of(all_metadata(viewer, ids.at("metadata"))), "gh");
    EXPECT_EQ(text_of(all_metadata(other, others)), "gh");
    producer.send_packet(data, 0, "packet");
    EXPECT_EQ(viewer.next_index(ids.at("channel_0")).flags, 0U) << "it has all metadata";
}

// A viewer that has not asked for the rest yet can go on in another file, too.
TEST_F(ViewerSessionTest, LongMetadataIsCutBetweenPackets) {
    constexpr std::size_t kPackets = 500;
    constexpr std::size_t kPacket = 3000;
    std::string text;
    std::string packets;
    std::string again;
    for (std::size_t i = 0; i < kPackets; ++i) {
        const std::string unit = fmt::format("{:04}", i);
        text += unit;
        packets += packet_of(unit, kPacket);
        again += packet_of(unit, 41);
    }
    producer.publish();
    ASSERT_EQ(attach(), "metadata channel_0 ");
    send_metadata(packets);
    const std::string first = next_metadata();
    EXPECT_EQ(first.size(), (1U << 20) / kPacket * kPacket);
    rotate_metadata(1);
    send_metadata(again);
    EXPECT_EQ(text_of(first + all_metadata(viewer, ids.at("metadata"))), text);
}

TEST_F(ViewerSessionTest, PlaceOfAViewerInLongMetadataIsLookedForByTurns) {
    const std::string text(3U << 20, 'x');
    producer.publish();
    ASSERT_EQ(attach(), "metadata channel_0 ");
    send_metadata(text);
    EXPECT_EQ(all_metadata(viewer, ids.at("metadata")), text);
    rotate_metadata(1);
    send_metadata(text + "new");
    EXPECT_TRUE(viewer.metadata(ids.at("metadata")).must_go_on);
    EXPECT_EQ(all_metadata(viewer, ids.at("metadata")), "new");
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

TEST_F(ViewerSessionTest, ManyLostPacketsArePassedByTurns) {
    producer.publish();
    ASSERT_EQ(attach(), "metadata channel_0 ");
    ViewerSession other{relay, [] {}};
    other.attach({.session_id = id(), .seek = Seek::kBeginning});
    producer.send_packet(data, 0, "first");
    producer.send_packet(data, 4000, "last");
    ASSERT_EQ(producer.stream(data).lost_packets(), 3999U);
    EXPECT_EQ(next(), "first");
    for (int turn = 0; turn < 3; ++turn) {
        EXPECT_EQ(viewer.next_index(ids.at("channel_0")).status, IndexStatus::kRetry);
        EXPECT_TRUE(viewer.must_go_on());
    }
    EXPECT_EQ(next(), "last");
    EXPECT_FALSE(viewer.must_go_on());
    EXPECT_EQ(other.news(1000).entries.size(), 1U);
    for (int turn = 0; turn < 2; ++turn) EXPECT_TRUE(other.news(1000).is_empty() && other.must_go_on());
    EXPECT_EQ(other.news(1000).entries.size(), 1U);
    EXPECT_FALSE(other.must_go_on());
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
