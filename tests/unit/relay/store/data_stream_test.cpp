#include "relay/store/data_stream.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <fstream>
#include <iterator>

#include "support/open_descriptors.hpp"
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
        directory = std::make_shared<SessionDirectory>(*std::move(root), "session");
        chunk = *directory->create_chunk({.chunk_id = 0});
    }

    // From now on, files are truncated when this process is killed.
    void guard() {
        directory = std::make_shared<SessionDirectory>(*ConfinedDirectory::open_root(scratch.path().string()),
                                                       "session", SessionDirectory::Origin::kMade,
                                                       FileKeepers{.guard = *FileGuard::start()});
        chunk = *directory->create_chunk({.chunk_id = 0});
    }
    void make(FileNaming files = {}, FileSequence::TakePlace take_place = {}) {
        files.trace_id = 1;
        files.channel_name = "ch_0";
        files.path = "ust";
        StreamParameters parameters{.handle = 1, .files = std::move(files), .take_place = std::move(take_place)};
        stream = std::make_unique<DataStream>(std::move(parameters), directory, chunk);
    }

    // Receives a packet of `text` with `padding` zeros after it.
    void data(std::uint64_t number, const std::string& text, std::uint32_t padding = 0) {
        begin(number, static_cast<std::uint32_t>(text.size()), padding);
        write(text);
        ASSERT_TRUE(stream->flush(kNow));
    }
    void begin(std::uint64_t number, std::uint32_t size, std::uint32_t padding = 0) {
        const wire::DataHeader header{.net_seq_num = number, .data_size = size, .padding_size = padding};
        ASSERT_EQ(stream->begin_packet(header).value(), DataStream::Begun::kYes);
    }
    // Writes the next part of the packet that was begun. Returns true when the packet is complete.
    bool write(const std::string& text) {
        const auto target = stream->begin_write().value();
        EXPECT_TRUE(target);
        if (!target) return false;
        const auto bytes = std::as_bytes(std::span(text));
        EXPECT_EQ(*write_what_fits(target->file->data.get(), target->offset, bytes), text.size());
        const auto is_complete = stream->end_write(text.size(), kNow);
        EXPECT_TRUE(is_complete);
        return is_complete.value_or(false);
    }
    // The tracer's number of a packet is its network number plus 100.
    void index(std::uint64_t number, std::uint64_t bytes, std::uint64_t begin = 0, std::uint64_t end = 0) {
        ASSERT_TRUE(stream->add_index({.net_seq_num = number,
                                       .entry = {.packet_size = bytes * 8,
                                                 .content_size = bytes * 8,
                                                 .timestamp_begin = begin,
                                                 .timestamp_end = end,
                                                 .stream_class_id = 3,
                                                 .stream_instance_id = 0,
                                                 .packet_seq_num = number + 100}},
                                      kNow));
        ASSERT_TRUE(stream->flush(kNow));
    }
    std::string text(const std::string& name = "ust/ch_0") { return contents(scratch.path() / name); }
    // The offsets in an index file; "lost" for a lost packet.
    std::string offsets(const std::string& name = "ust/index/ch_0.idx") {
        const std::string bytes = text(name);
        std::string found;
        for (std::size_t at = 16; at + 72 <= bytes.size(); at += 72) {
            const auto entry = *trace::parse_index_entry(std::as_bytes(std::span(bytes)).subspan(at, 72));
            found += entry.is_lost() ? "lost " : fmt::format("{} ", entry.offset);
        }
        return found;
    }
    void beacon(std::uint64_t after, std::uint64_t timestamp) {
        stream->add_beacon({.net_seq_num = after, .entry = {.timestamp_end = timestamp, .stream_class_id = 3}});
        ASSERT_TRUE(stream->flush(kNow));
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
    EXPECT_EQ(stream->view().horizon, 30U);
    EXPECT_EQ(stream->view().entries, 2U);
}

TEST_F(DataStreamTest, DataInPiecesIsOnePacket) {
    make();
    begin(0, 6);
    EXPECT_FALSE(write("ab"));
    EXPECT_EQ(stream->begin_write().value()->missing, 4U);
    EXPECT_TRUE(write("cdef"));
    index(0, 6);
    EXPECT_EQ(text(), "abcdef");
}

TEST_F(DataStreamTest, LostPacketHasAnIndexWithoutOffset) {
    make();
    index(0, 5, 0, 10), index(1, 5, 10, 20);
    data(1, "there");
    ASSERT_TRUE(stream->finish());
    EXPECT_EQ(offsets(), "lost 0 ");
    EXPECT_EQ(stream->lost_packets(), 1U);
}

// Its producer may send it again, unless it has gone.
TEST_F(DataStreamTest, PacketWhoseDataDoesNotComeIsMissing) {
    make();
    data(0, "packet"), index(0, 6);
    index(1, 6);
    EXPECT_EQ(stream->missing_packets(), 0U);
    stream->end_data();
    ASSERT_TRUE(stream->flush(kNow));
    EXPECT_EQ(stream->lost_packets(), 1U);
    EXPECT_EQ(stream->missing_packets(), 1U);
    index(2, 6);
    stream->end_indexes();
    index(3, 6);
    EXPECT_EQ(stream->lost_packets(), 3U);
    EXPECT_EQ(stream->missing_packets(), 2U);
}

// Who brings to disk what each of the answers names has all that came before it there, and the names of its files.
TEST_F(DataStreamTest, WhatIsToBeBroughtToDiskIsNamedOnce) {
    make({.size_limit = 10});
    const auto named = [this] {
        std::string text;
        for (const Unsynced& one : stream->take_unsynced())
            text += one.extent == Unsynced::Extent::kFileSystem ? "all " : "file ";
        return text;
    };
    const std::string all = "all ";
    const std::string data_and_index = "file file ";
    EXPECT_EQ(named(), "") << "there is nothing";
    data(0, "first"), index(0, 5);
    EXPECT_EQ(named(), all) << "a file has come";
    data(1, "more"), index(1, 4);
    EXPECT_EQ(named(), data_and_index);
    data(2, "in another"), index(2, 10);
    EXPECT_EQ(named(), all) << "one was closed";
    EXPECT_EQ(named(), data_and_index);
    ASSERT_TRUE(stream->rotate(next_chunk(), 103, kNow));
    EXPECT_EQ(named(), all) << "one was left";
    EXPECT_EQ(named(), "");
    data(3, "in the next"), index(3, 11);
    ASSERT_TRUE(stream->finish());
    EXPECT_EQ(named(), all) << "one came and was closed";
    EXPECT_EQ(named(), "");
}

TEST_F(DataStreamTest, ManyLostPacketsDoNotFillTheMemory) {
    make();
    data(0, "first"), index(0, 5);
    stream->end_data();
    constexpr std::uint64_t kLost = 40'000;
    for (std::uint64_t number = 1; number <= kLost; ++number)
        ASSERT_TRUE(stream->add_index({.net_seq_num = number, .entry = {.packet_size = 8, .content_size = 8}}, kNow));
    // Nobody has asked for a flush.
    EXPECT_GT(fs::file_size(scratch.path() / "ust/index/ch_0.idx"), 72 * kLost - (1U << 20));
    ASSERT_TRUE(stream->flush(kNow));
    EXPECT_EQ(fs::file_size(scratch.path() / "ust/index/ch_0.idx"), 16 + 72 * (1 + kLost));
}

TEST_F(DataStreamTest, PacketCutByTheConnectionIsCutFromTheFile) {
    make();
    data(0, "whole"), index(0, 5);
    begin(1, 100);
    write("half");
    index(1, 100);
    ASSERT_TRUE(stream->finish());
    EXPECT_EQ(text(), "whole");
    EXPECT_EQ(offsets(), "0 lost ");
}

// As on a full disk.
TEST_F(DataStreamTest, WhatAWriteLeftThatFailedInTheMiddleIsCutFromTheFile) {
    make();
    data(0, "whole"), index(0, 5);
    begin(1, 100);
    const auto target = stream->begin_write().value();
    ASSERT_TRUE(target);
    EXPECT_EQ(::pwrite(target->file->data.get(), "half", 4, static_cast<off_t>(target->offset)), 4);
    EXPECT_EQ(text(), "wholehalf");
    stream->drop_packet();
    EXPECT_EQ(text(), "whole");
    ASSERT_TRUE(stream->finish());
    EXPECT_EQ(text(), "whole");
}

TEST_F(DataStreamTest, DataWithoutItsIndexIsCutFromTheFile) {
    make();
    data(0, "whole"), index(0, 5), data(1, "no index");
    ASSERT_TRUE(stream->finish());
    EXPECT_EQ(text(), "whole");
    EXPECT_EQ(offsets(), "0 ");
    EXPECT_EQ(stream->lost_packets(), 0U);
}

TEST_F(DataStreamTest, SnapshotsNeedNoIndex) {
    make({.index_minor = std::nullopt});
    data(1, "packet");
    EXPECT_FALSE(stream->has_stored(2));
    EXPECT_TRUE(stream->has_stored(1));
    ASSERT_TRUE(stream->finish());
    EXPECT_EQ(text(), "packet");
    EXPECT_FALSE(fs::exists(scratch.path() / "ust/index"));
}

TEST_F(DataStreamTest, SnapshotThatWasCutOffWaitsForDataAndOneThatWasClosedDoesNot) {
    make({.index_minor = std::nullopt});
    data(0, "packet");
    EXPECT_FALSE(stream->waits_for_data()) << "END_DATA_PENDING asks";
    stream->end_indexes();
    EXPECT_TRUE(stream->waits_for_data());
    stream->close_after(1);
    EXPECT_TRUE(stream->waits_for_data());
    data(1, "packet");
    EXPECT_FALSE(stream->waits_for_data());
}

TEST_F(DataStreamTest, OldPeersGetShortEntries) {
    make({.index_minor = 0});
    data(0, "packet"), index(0, 6);
    EXPECT_EQ(text("ust/index/ch_0.idx").size(), 16U + 56U);
}

TEST_F(DataStreamTest, FilesRollAndTheOldestGoes) {
    make({.size_limit = 8, .count_limit = 2});
    for (std::uint64_t number = 0; number < 3; ++number)
        data(number, std::string(6, char('a' + number))), index(number, 6);
    EXPECT_EQ(text("ust/ch_0_0"), "cccccc");
    EXPECT_EQ(text("ust/ch_0_1"), "bbbbbb");
    EXPECT_EQ(offsets("ust/index/ch_0_0.idx"), "0 ");
    EXPECT_EQ(stream->view().place->oldest(), 1U);
    EXPECT_EQ(stream->view().current_file, 2U);
}

TEST_F(DataStreamTest, NoCountOfFilesIsNoLimit) {
    make({.size_limit = 8, .count_limit = 0});
    for (std::uint64_t number = 0; number < 4; ++number) data(number, "sixsix"), index(number, 6);
    EXPECT_EQ(text("ust/ch_0_3"), "sixsix");
    EXPECT_EQ(stream->view().place->oldest(), 0U);
}

TEST_F(DataStreamTest, IndexFindsItsDataInAFileThatHasBeenRolledAway) {
    make({.size_limit = 8, .count_limit = 4});
    data(0, "packet"), data(1, "second"), index(0, 6), index(1, 6);
    EXPECT_EQ(offsets("ust/index/ch_0_0.idx"), "0 ");
    EXPECT_EQ(offsets("ust/index/ch_0_1.idx"), "0 ");
}

TEST_F(DataStreamTest, FilesThatWaitForTheirIndexesAreFew) {
    make({.size_limit = 1});
    const std::size_t before = test::open_descriptors();
    for (std::uint64_t number = 0; number < 100; ++number) data(number, "packet");
    EXPECT_LE(test::open_descriptors(), before + 2 * FileSequence::kMostOpen);
    for (std::uint64_t number = 0; number < 100; ++number) index(number, 6);
    EXPECT_EQ(stream->view().packets, 100U);
    EXPECT_EQ(stream->lost_packets(), 0U);
    EXPECT_EQ(text("ust/ch_0_0"), "packet");
}

// Its peer has as many descriptors as it may.
TEST_F(DataStreamTest, FilesThatWaitForTheirIndexesHavePlaces) {
    int left = 2;
    const auto take_place = [&left]() -> std::shared_ptr<void> {
        if (left == 0) return nullptr;
        --left;
        return std::shared_ptr<int>(&left, [](int* places) { ++*places; });
    };
    make({.size_limit = 1}, take_place);
    const std::size_t before = test::open_descriptors();
    for (std::uint64_t number = 0; number < 10; ++number) data(number, "packet");
    EXPECT_LE(test::open_descriptors(), before + 2 * 3);
    EXPECT_EQ(left, 0);
    for (std::uint64_t number = 0; number < 10; ++number) index(number, 6);
    EXPECT_EQ(left, 2);
    EXPECT_EQ(stream->view().packets, 10U);
    EXPECT_EQ(stream->lost_packets(), 0U);
    EXPECT_EQ(text("ust/ch_0_0"), "packet");
}

TEST_F(DataStreamTest, FilesOfASnapshotAreClosedWhenTheyAreFull) {
    make({.size_limit = 1, .index_minor = std::nullopt});
    const std::size_t before = test::open_descriptors();
    for (std::uint64_t number = 0; number < 100; ++number) data(number, "packet");
    EXPECT_LE(test::open_descriptors(), before + 2);
    ASSERT_TRUE(stream->finish());
    EXPECT_EQ(text("ust/ch_0_0"), "packet");
    EXPECT_EQ(text("ust/ch_0_99"), "packet");
}

TEST_F(DataStreamTest, RotationWaitsForThePacketsBeforeIt) {
    make();
    data(0, "old"), index(0, 3);
    ASSERT_TRUE(stream->rotate(next_chunk(), 102, kNow));
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
    ASSERT_TRUE(stream->rotate(next_chunk(), 101, kNow));
    index(1, 3);
    EXPECT_EQ(text(), "old");
    EXPECT_EQ(text(name_of_second() + "ust/ch_0"), "new");
}

// Whoever sends little makes little work.
TEST_F(DataStreamTest, RotationLeavesPaddingAHole) {
    constexpr std::uint32_t kPadding = 16U << 20;
    make();
    for (std::uint64_t number = 0; number < 4; ++number) data(number, "new", kPadding);
    ASSERT_TRUE(stream->rotate(next_chunk(), 0, kNow));
    struct stat status {};
    ASSERT_EQ(::stat((scratch.path() / name_of_second() / "ust/ch_0").c_str(), &status), 0);
    EXPECT_EQ(status.st_size, 4 * (3 + kPadding));
    EXPECT_LT(status.st_blocks * 512, 1 << 20);
    for (std::uint64_t number = 0; number < 4; ++number) index(number, 3 + kPadding);
    EXPECT_EQ(stream->view().packets, 4U);
    EXPECT_EQ(stream->lost_packets(), 0U);
}

TEST_F(DataStreamTest, RotationMovesThePacketThatIsComing) {
    make();
    data(0, "old"), index(0, 3);
    begin(1, 7);
    write("half");
    ASSERT_TRUE(stream->rotate(next_chunk(), 101, kNow));
    EXPECT_TRUE(write("way"));
    index(1, 7);
    EXPECT_EQ(text(), "old");
    EXPECT_EQ(text(name_of_second() + "ust/ch_0"), "halfway");
}

TEST_F(DataStreamTest, RotationThatComesLateTakesThePacketsBehindIt) {
    make();
    data(0, "old"), index(0, 3);
    data(1, "next"), data(2, "after");
    ASSERT_TRUE(stream->rotate(next_chunk(), 102, kNow));
    index(1, 4), index(2, 5);
    EXPECT_EQ(text(), "oldnext");
    EXPECT_EQ(text(name_of_second() + "ust/ch_0"), "after");
}

TEST_F(DataStreamTest, SecondRotationWhileOneIsPendingIsRefused) {
    make();
    ASSERT_TRUE(stream->rotate(next_chunk(), 105, kNow));
    EXPECT_FALSE(stream->rotate(nullptr, 110, kNow));
}

TEST_F(DataStreamTest, DataOutOfEveryChunkIsRefused) {
    make();
    data(0, "old"), index(0, 3);
    ASSERT_TRUE(stream->rotate(nullptr, 101, kNow));
    EXPECT_FALSE(stream->begin_packet({.net_seq_num = 1, .data_size = 4}));
}

// Of a stream that takes datagrams, data is not waited for long, also if it comes by the connection.
TEST_F(DataStreamTest, DataThatWasGivenUpIsDroppedOutOfEveryChunk) {
    make();
    index(0, 3);
    ASSERT_TRUE(stream->rotate(nullptr, 101, kNow));
    stream->with_pairs([](PairingTable& pairs) { return pairs.give_up_data(kNow + std::chrono::hours(1)); });
    ASSERT_TRUE(stream->flush(kNow));
    EXPECT_EQ(stream->lost_packets(), 1U);
    EXPECT_EQ(stream->begin_packet({.net_seq_num = 0, .data_size = 3}).value(), DataStream::Begun::kDropped);
    EXPECT_FALSE(stream->begin_packet({.net_seq_num = 1, .data_size = 4})) << "what was not given up belongs nowhere";
}

// It would end the connection, with what other streams have to send.
TEST_F(DataStreamTest, DataThatWasGivenUpIsDroppedBehindTheEnd) {
    make();
    index(0, 3);
    stream->with_pairs([](PairingTable& pairs) { return pairs.give_up_data(kNow + std::chrono::hours(1)); });
    stream->close_after(0);
    ASSERT_TRUE(stream->flush(kNow));
    ASSERT_TRUE(stream->should_finish());
    ASSERT_TRUE(stream->finish());
    EXPECT_EQ(stream->begin_packet({.net_seq_num = 0, .data_size = 3}).value(), DataStream::Begun::kDropped);
    EXPECT_FALSE(stream->begin_packet({.net_seq_num = 1, .data_size = 4})) << "there was to be none";
}

TEST_F(DataStreamTest, AllPacketsOfAGapCount) {
    make();
    data(0, "first"), index(0, 5);
    data(10'000, "next"), index(10'000, 4);
    stream->end_data(), stream->end_indexes();
    ASSERT_TRUE(stream->finish());
    EXPECT_EQ(stream->parameters().traffic->lost_packets, 9'999U);
}

TEST_F(DataStreamTest, BeaconCountsOnceAllBeforeItIsHere) {
    make();
    beacon(wire::kNoPacket, 5);
    EXPECT_EQ(stream->view().beacon->timestamp, 5U);
    index(0, 5, 10, 20);
    beacon(0, 50);
    EXPECT_EQ(stream->view().horizon, 5U);
    data(0, "first");
    ASSERT_TRUE(stream->view().beacon);
    EXPECT_EQ(stream->view().beacon->timestamp, 50U);
    EXPECT_EQ(stream->view().horizon, 50U);
    data(1, "again"), index(1, 5, 50, 60);
    EXPECT_FALSE(stream->view().beacon);
}

// babeltrace2 exits at a time that is older than what it has got of the stream.
TEST_F(DataStreamTest, BeaconThatWasOvertakenIsNotSeen) {
    make();
    index(0, 5, 10, 20);
    beacon(0, 50);
    index(1, 5, 50, 60);
    data(1, "again");  // and the one before is lost
    EXPECT_EQ(offsets(), "lost 0 ");
    EXPECT_EQ(stream->view().horizon, 60U);
    EXPECT_FALSE(stream->view().beacon);
}

TEST_F(DataStreamTest, BeaconThatIsOlderThanAPacketIsNotSeen) {
    make();
    data(0, "first"), index(0, 5, 10, 60);
    beacon(0, 50);
    EXPECT_FALSE(stream->view().beacon);
    EXPECT_EQ(stream->view().horizon, 60U);
    beacon(0, 60);
    ASSERT_TRUE(stream->view().beacon);
    EXPECT_EQ(stream->view().beacon->timestamp, 60U);
}

TEST_F(DataStreamTest, RotationOutOfEveryChunkInTheMiddleOfAPacket) {
    make();
    data(0, "old"), index(0, 3);
    begin(1, 100);
    write("half");
    ASSERT_TRUE(stream->rotate(nullptr, 101, kNow));
    EXPECT_FALSE(stream->begin_write().value()) << "the packet belongs nowhere";
    index(1, 100);
    ASSERT_TRUE(stream->finish());
    EXPECT_EQ(text(), "old");
    EXPECT_EQ(stream->lost_packets(), 1U);
}

TEST_F(DataStreamTest, RotationOutOfEveryChunkAheadOfItsIndexes) {
    make();
    data(0, "old"), index(0, 3), data(1, "after");
    ASSERT_TRUE(stream->rotate(nullptr, 101, kNow));
    index(1, 5);
    ASSERT_TRUE(stream->finish());
    EXPECT_EQ(text(), "old");
    EXPECT_EQ(stream->lost_packets(), 1U);
}

TEST_F(DataStreamTest, RotationIntoAChunkThatIsGone) {
    make();
    data(0, "old"), index(0, 3), data(1, "waits");
    begin(2, 100);
    write("half");
    const auto next = next_chunk();
    next->is_deleted = true;
    ASSERT_TRUE(stream->rotate(next, 101, kNow));
    EXPECT_FALSE(stream->begin_write().value());
    EXPECT_EQ(text(), "old");
}

TEST_F(DataStreamTest, StoredIsWhatIsOnDisk) {
    make();
    begin(0, 5);
    write("first");
    ASSERT_TRUE(stream->add_index({.net_seq_num = 0, .entry = {.packet_size = 40, .content_size = 40}}, kNow));
    EXPECT_FALSE(stream->has_stored(0)) << "its index waits in memory";
    EXPECT_EQ(stream->view().packets, 0U);
    ASSERT_TRUE(stream->flush(kNow));
    EXPECT_TRUE(stream->has_stored(0));
    EXPECT_EQ(offsets(), "0 ");
}

TEST_F(DataStreamTest, APacketDoesNotBeginInTheMiddleOfAnother) {
    make();
    begin(0, 6);
    write("abc");
    EXPECT_FALSE(stream->store_packet(1, std::as_bytes(std::span("datagram", 8)), kNow));
    EXPECT_TRUE(write("def"));
    index(0, 6);
    EXPECT_EQ(text(), "abcdef");
}

// Data comes before its index, also across the border of two files. A viewer must not leave a file before the last
// entry of that file is there.
TEST_F(DataStreamTest, FileIsCurrentUntilItsLastEntryIsThere) {
    make({.size_limit = 8, .count_limit = 4});
    data(0, "packet"), data(1, "second"), index(0, 6);
    EXPECT_EQ(stream->view().current_file, 0U);
    EXPECT_EQ(stream->view().entries, 1U);
    index(1, 6);
    EXPECT_EQ(stream->view().current_file, 1U);
    EXPECT_EQ(stream->view().entries, 1U);
}

TEST_F(DataStreamTest, RolledFileIsANewOne) {
    make({.size_limit = 8, .count_limit = 1});
    data(0, "oldest"), index(0, 6);
    const UniqueFd reader(::open((scratch.path() / "ust/ch_0_0").c_str(), O_RDONLY | O_CLOEXEC));
    data(1, "newest"), index(1, 6);
    std::string seen(6, ' ');
    ASSERT_EQ(::pread(reader.get(), seen.data(), seen.size(), 0), 6);
    EXPECT_EQ(seen, "oldest") << "what a reader has open does not change";
    EXPECT_EQ(text("ust/ch_0_0"), "newest");
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

// Followers of the file read the bytes that are not locked.
TEST_F(DataStreamTest, LockMovesOnWithTheIndex) {
    make();
    data(0, "first"), data(1, "second");
    const UniqueFd follower(::open((scratch.path() / "ust/ch_0").c_str(), O_RDONLY | O_CLOEXEC));
    EXPECT_TRUE(trace::is_write_locked(follower.get(), 0, 5)) << "its index has not come";
    index(0, 5);
    EXPECT_FALSE(trace::is_write_locked(follower.get(), 0, 5));
    EXPECT_EQ(trace::unlocked_size(follower.get()), 5U);
    index(1, 6);
    EXPECT_EQ(trace::unlocked_size(follower.get()), 11U);
}

TEST_F(DataStreamTest, FileOfAKilledRelayEndsBehindWhatItsIndexSpeaksOf) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    const UniqueFd life(ends[0]);
    UniqueFd theirs(ends[1]);
    const pid_t child = ::fork();
    if (child == 0) {
        guard();
        make();
        data(0, "first"), data(1, "second"), index(0, 5);
        // As if it were killed right after it has written an entry.
        std::ofstream(scratch.path() / "ust/index/ch_0.idx", std::ios::app)
            << std::string(trace::kIndexEntrySize, '\0');
        ::raise(SIGKILL);
    }
    theirs.reset();
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    char byte = 0;
    ASSERT_EQ(::read(life.get(), &byte, 1), 0) << "its guard, which cuts the file, has gone too";
    EXPECT_EQ(text(), "first");
    EXPECT_EQ(offsets(), "0 ");
}

TEST_F(DataStreamTest, PacketOfAnotherSizeThanItsIndexSaysIsLost) {
    make();
    data(0, "first"), index(0, 6);
    data(1, "second"), index(1, 6);
    EXPECT_EQ(offsets(), "lost 5 ");
    EXPECT_EQ(stream->lost_packets(), 1U);
}

TEST_F(DataStreamTest, FileThatSomebodyRemovesIsTold) {
    make();
    data(0, "first"), index(0, 5);
    fs::remove_all(scratch.path() / "ust");
    testing::internal::CaptureStderr();
    data(1, "second"), index(1, 6);
    data(2, "third"), index(2, 5);
    ASSERT_TRUE(stream->finish());
    const std::string told = testing::internal::GetCapturedStderr();
    EXPECT_NE(told.find("somebody has removed its file of ust: "), std::string::npos) << told;
    EXPECT_NE(told.find("2 packets are lost, because"), std::string::npos) << told;
    EXPECT_EQ(std::ranges::count(told, '\n'), 2) << told;
}

TEST_F(DataStreamTest, FileOfASnapshotThatSomebodyRemovesIsTold) {
    make({.index_minor = std::nullopt});
    data(0, "first");
    fs::remove_all(scratch.path() / "ust");
    testing::internal::CaptureStderr();
    data(1, "second");
    ASSERT_TRUE(stream->finish());
    const std::string told = testing::internal::GetCapturedStderr();
    EXPECT_NE(told.find("1 packets are lost, because"), std::string::npos) << told;
}

TEST_F(DataStreamTest, FileThatWasRolledAwayIsNotTold) {
    make({.size_limit = 8, .count_limit = 2});
    data(0, "first"), data(1, "second"), data(2, "third");
    testing::internal::CaptureStderr();
    index(0, 5), index(1, 6), index(2, 5);
    ASSERT_TRUE(stream->finish());
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST_F(DataStreamTest, ImpossibleSizesInAnIndexAreRefused) {
    make();
    EXPECT_FALSE(stream->add_index({.entry = {.packet_size = 9, .content_size = 8}}, kNow));
    EXPECT_FALSE(stream->add_index({.entry = {.packet_size = 8, .content_size = 16}}, kNow));
}

}  // namespace
}  // namespace leat::relay
