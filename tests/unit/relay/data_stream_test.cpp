#include "relay/data_stream.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "support/scratch_directory.hpp"

namespace leat::relay {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

constexpr Time kNow{1000s};

std::string contents(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

class DataStreamTest : public testing::Test {
  protected:
    DataStreamTest() {
        auto root = ConfinedDirectory::open_root(scratch.path().string());
        directory = std::make_shared<SessionDirectory>(*std::move(root), "");
        chunk = *directory->create_chunk({.chunk_id = 0});
    }

    void make(StreamParameters parameters = {}) {
        parameters.handle = 1;
        parameters.channel_name = "ch_0";
        parameters.path = "ust";
        stream = std::make_unique<DataStream>(std::move(parameters), directory, chunk);
    }

    // A packet of `text`, and `padding` zeros behind it.
    void data(std::uint64_t number, const std::string& text, std::uint32_t padding = 0) {
        begin(number, static_cast<std::uint32_t>(text.size()), padding);
        write(text);
        ASSERT_EQ(*stream->end_packet(kNow), Disk::kDone);
        ASSERT_EQ(*stream->flush(), Disk::kDone);
    }
    void begin(std::uint64_t number, std::uint32_t size, std::uint32_t padding = 0) {
        ASSERT_TRUE(stream->begin_packet({.net_seq_num = number, .data_size = size, .padding_size = padding}));
    }
    void write(const std::string& text) { ASSERT_EQ(*stream->write(std::as_bytes(std::span(text))), text.size()); }
    // The packet's number of the tracer is its number on the network plus 100.
    void index(std::uint64_t number, std::uint64_t bytes, std::uint64_t begin = 0, std::uint64_t end = 0) {
        ASSERT_TRUE(stream->add_index({.net_seq_num = number,
                                       .packet_size = bytes * 8,
                                       .content_size = bytes * 8,
                                       .timestamp_begin = begin,
                                       .timestamp_end = end,
                                       .stream_class_id = 3,
                                       .stream_instance_id = 0,
                                       .packet_seq_num = number + 100},
                                      kNow));
        ASSERT_TRUE(stream->commit(kNow));
        ASSERT_EQ(*stream->flush(), Disk::kDone);
    }
    std::string text(const std::string& name = "ust/ch_0") { return contents(scratch.path() / name); }
    // Offsets in an index file; "lost" where it says so.
    std::string offsets(const std::string& name = "ust/index/ch_0.idx") {
        const std::string bytes = text(name);
        std::string found;
        for (std::size_t at = 16; at + 72 <= bytes.size(); at += 72) {
            const auto entry = *ctf::parse_index_entry(std::as_bytes(std::span(bytes)).subspan(at, 72));
            found += entry.is_lost() ? "lost " : fmt::format("{} ", entry.offset);
        }
        return found;
    }
    std::shared_ptr<TraceChunk> next_chunk() { return *directory->create_chunk({.chunk_id = 1, .creation_time = 0}); }
    std::string name_of_second() {
        for (const auto& entry : fs::directory_iterator(scratch.path()))
            if (entry.path().filename().string().ends_with("-1")) return entry.path().filename().string() + "/";
        return "none/";
    }

    test::ScratchDirectory scratch;
    std::shared_ptr<SessionDirectory> directory;
    std::shared_ptr<TraceChunk> chunk;
    std::unique_ptr<DataStream> stream;
};

TEST_F(DataStreamTest, DataAndIndexMakeAPacket) {
    make();
    data(0, "first"), index(0, 5, 10, 20);
    data(1, "second", 3), index(1, 9, 20, 30);
    EXPECT_EQ(text(), std::string("firstsecond\0\0\0", 14));
    EXPECT_EQ(offsets(), "0 5 ");
    EXPECT_EQ(stream->horizon(), 30U);
}

TEST_F(DataStreamTest, DataInPiecesIsOnePacket) {
    make();
    begin(0, 6);
    write("ab");
    EXPECT_EQ(stream->missing(), 4U);
    write("cdef");
    ASSERT_EQ(*stream->end_packet(kNow), Disk::kDone);
    index(0, 6);
    EXPECT_EQ(text(), "abcdef");
}

TEST_F(DataStreamTest, LostPacketHasAnIndexWithoutOffset) {
    make();
    index(0, 5, 0, 10), index(1, 5, 10, 20);
    data(1, "there");
    stream->finish();
    EXPECT_EQ(offsets(), "lost 0 ");
    EXPECT_EQ(stream->lost_packets(), 1U);
}

TEST_F(DataStreamTest, ManyLostPacketsDoNotFillTheMemory) {
    make();
    data(0, "first"), index(0, 5);
    constexpr std::uint64_t kGap = 4000;
    constexpr std::uint64_t kGaps = 10;
    for (std::uint64_t number = kGap; number <= kGaps * kGap; number += kGap) {
        begin(number, 1);
        write("x");
        ASSERT_EQ(*stream->end_packet(kNow), Disk::kDone);
        ASSERT_TRUE(stream->add_index({.net_seq_num = number, .packet_size = 8, .content_size = 8}, kNow));
        ASSERT_TRUE(stream->commit(kNow));
    }
    // Nobody has asked for it to be flushed.
    EXPECT_GT(fs::file_size(scratch.path() / "ust/index/ch_0.idx"), 72 * (kGaps - 1) * kGap - (1U << 20));
    ASSERT_EQ(*stream->flush(), Disk::kDone);
    EXPECT_EQ(fs::file_size(scratch.path() / "ust/index/ch_0.idx"), 16 + 72 * (1 + kGaps * kGap));
}

TEST_F(DataStreamTest, PacketCutByTheConnectionIsCutFromTheFile) {
    make();
    data(0, "whole"), index(0, 5);
    begin(1, 100);
    write("half");
    index(1, 100);
    stream->finish();
    EXPECT_EQ(text(), "whole");
    EXPECT_EQ(offsets(), "0 lost ");
}

TEST_F(DataStreamTest, DataWithoutItsIndexIsCutFromTheFile) {
    make();
    data(0, "whole"), index(0, 5), data(1, "no index");
    stream->finish();
    EXPECT_EQ(text(), "whole");
    EXPECT_EQ(offsets(), "0 lost ");
}

TEST_F(DataStreamTest, SnapshotsNeedNoIndex) {
    make({.has_indexes = false});
    data(1, "packet");
    EXPECT_FALSE(stream->has_stored(2));
    EXPECT_TRUE(stream->has_stored(1));
    stream->finish();
    EXPECT_EQ(text(), "packet");
    EXPECT_FALSE(fs::exists(scratch.path() / "ust/index"));
}

TEST_F(DataStreamTest, OldPeersGetShortEntries) {
    make({.index_minor = 0});
    data(0, "packet"), index(0, 6);
    EXPECT_EQ(text("ust/index/ch_0.idx").size(), 16U + 56U);
}

TEST_F(DataStreamTest, FilesRollAndTheOldestGoes) {
    make({.tracefile_size = 8, .tracefile_count = 2});
    for (std::uint64_t number = 0; number < 3; ++number)
        data(number, std::string(6, char('a' + number))), index(number, 6);
    EXPECT_EQ(text("ust/ch_0_0"), "cccccc");
    EXPECT_EQ(text("ust/ch_0_1"), "bbbbbb");
    EXPECT_EQ(offsets("ust/index/ch_0_0.idx"), "0 ");
    EXPECT_EQ(stream->oldest_file(), 1U);
    EXPECT_EQ(stream->newest_file(), 2U);
}

TEST_F(DataStreamTest, NoCountOfFilesIsNoLimit) {
    make({.tracefile_size = 8, .tracefile_count = 0});
    for (std::uint64_t number = 0; number < 4; ++number) data(number, "sixsix"), index(number, 6);
    EXPECT_EQ(text("ust/ch_0_3"), "sixsix");
    EXPECT_EQ(stream->oldest_file(), 0U);
}

TEST_F(DataStreamTest, IndexFindsItsDataInAFileThatHasBeenRolledAway) {
    make({.tracefile_size = 8, .tracefile_count = 4});
    data(0, "packet"), data(1, "second"), index(0, 6), index(1, 6);
    EXPECT_EQ(offsets("ust/index/ch_0_0.idx"), "0 ");
    EXPECT_EQ(offsets("ust/index/ch_0_1.idx"), "0 ");
}

TEST_F(DataStreamTest, RotationWaitsForThePacketsBeforeIt) {
    make();
    data(0, "old"), index(0, 3);
    ASSERT_TRUE(stream->rotate(next_chunk(), 102));
    data(1, "last"), index(1, 4);
    data(2, "new"), index(2, 3);
    EXPECT_EQ(text(), "oldlast");
    EXPECT_EQ(text(name_of_second() + "ust/ch_0"), "new");
    EXPECT_EQ(offsets(name_of_second() + "ust/index/ch_0.idx"), "0 ");
}

TEST_F(DataStreamTest, RotationMovesDataThatIsAheadOfItsIndex) {
    make();
    data(0, "old"), index(0, 3);
    data(1, "new");
    ASSERT_TRUE(stream->rotate(next_chunk(), 101));
    index(1, 3);
    EXPECT_EQ(text(), "old");
    EXPECT_EQ(text(name_of_second() + "ust/ch_0"), "new");
}

TEST_F(DataStreamTest, RotationMovesThePacketThatIsComing) {
    make();
    data(0, "old"), index(0, 3);
    begin(1, 7);
    write("half");
    ASSERT_TRUE(stream->rotate(next_chunk(), 101));
    write("way");
    ASSERT_EQ(*stream->end_packet(kNow), Disk::kDone);
    index(1, 7);
    EXPECT_EQ(text(), "old");
    EXPECT_EQ(text(name_of_second() + "ust/ch_0"), "halfway");
}

TEST_F(DataStreamTest, RotationThatComesLateTakesThePacketsBehindIt) {
    make();
    data(0, "old"), index(0, 3);
    data(1, "next"), data(2, "after");
    ASSERT_TRUE(stream->rotate(next_chunk(), 102));
    index(1, 4), index(2, 5);
    EXPECT_EQ(text(), "oldnext");
    EXPECT_EQ(text(name_of_second() + "ust/ch_0"), "after");
}

TEST_F(DataStreamTest, SecondRotationWhileOneIsPendingIsRefused) {
    make();
    ASSERT_TRUE(stream->rotate(next_chunk(), 105));
    EXPECT_FALSE(stream->rotate(nullptr, 110));
}

TEST_F(DataStreamTest, DataOutOfEveryChunkIsRefused) {
    make();
    data(0, "old"), index(0, 3);
    ASSERT_TRUE(stream->rotate(nullptr, 101));
    EXPECT_FALSE(stream->begin_packet({.net_seq_num = 1, .data_size = 4}));
}

TEST_F(DataStreamTest, BeaconCountsOnceAllBeforeItIsHere) {
    make();
    stream->add_beacon({.net_seq_num = wire::kNoPacket, .timestamp_end = 5, .stream_class_id = 3});
    EXPECT_EQ(stream->beacon()->timestamp, 5U);
    index(0, 5, 10, 20);
    stream->add_beacon({.net_seq_num = 0, .timestamp_end = 50, .stream_class_id = 3});
    EXPECT_EQ(stream->horizon(), 5U);
    data(0, "first");
    ASSERT_TRUE(stream->beacon());
    EXPECT_EQ(stream->beacon()->timestamp, 50U);
    EXPECT_EQ(stream->horizon(), 50U);
    data(1, "again"), index(1, 5, 50, 60);
    EXPECT_FALSE(stream->beacon());
}

TEST_F(DataStreamTest, ClosesBehindItsLastPacket) {
    make();
    index(0, 5);
    stream->close_after(0);
    EXPECT_FALSE(stream->should_finish());
    data(0, "first");
    EXPECT_TRUE(stream->should_finish());
}

TEST_F(DataStreamTest, StreamWithoutPacketsClosesAtOnce) {
    make();
    stream->close_after(wire::kNoPacket);
    EXPECT_TRUE(stream->should_finish());
}

TEST_F(DataStreamTest, ImpossibleSizesInAnIndexAreRefused) {
    make();
    EXPECT_FALSE(stream->add_index({.packet_size = 9, .content_size = 8}, kNow));
    EXPECT_FALSE(stream->add_index({.packet_size = 8, .content_size = 16}, kNow));
}

}  // namespace
}  // namespace leat::relay
