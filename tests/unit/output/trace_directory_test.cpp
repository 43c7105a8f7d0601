#include "output/trace_directory.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

#include "support/descriptor_limit.hpp"
#include "support/file_size_limit.hpp"
#include "support/scratch_directory.hpp"
#include "trace/index_format.hpp"
#include "trace/sync_file.hpp"

namespace leat::output {
namespace {

namespace fs = std::filesystem;
using test::FileSizeLimit;

std::string contents(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

std::string text(UntrustedBytes bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};  // NOLINT(*-reinterpret-cast)
}

class TraceDirectoryTest : public testing::Test {
  protected:
    // Writes the next packet of a ring of the first channel, with `size` bytes of records.
    Result<void> write(std::uint32_t ring, std::size_t size) { return write({.channel = 0, .ring = ring}, size); }
    Result<void> write(consumer::StreamId stream, std::size_t size) {
        const std::vector<std::byte> records(size, std::byte{'r'});
        return output_->write_packet({.stream = stream, .header = header(stream.ring, size), .records = records});
    }
    static ctf::PacketHeader header(std::uint64_t ring, std::size_t size) {
        const std::uint64_t bits = (ctf::kPacketHeaderSize + size) * 8;
        return {.stream_instance_id = ring, .content_size = bits, .packet_size = bits};
    }

    test::ScratchDirectory scratch_;
    fs::path root_ = scratch_.path() / "trace";
    fs::path trace_ = root_ / "ust/uid/1000/64-bit";
    std::unique_ptr<TraceDirectory> output_ =
        *TraceDirectory::create(root_, "ust/uid/1000/64-bit", {{"channel0"}, {"other"}});
};

TEST_F(TraceDirectoryTest, IsLaidOutAsLttngs) {
    ASSERT_TRUE(output_->write_metadata("/* CTF 1.8 */\n"));
    ASSERT_TRUE(write(3, 10));
    EXPECT_EQ(contents(trace_ / "metadata"), "/* CTF 1.8 */\n");
    EXPECT_EQ(fs::file_size(trace_ / "channel0_3"), ctf::kPacketHeaderSize + 10);
    EXPECT_EQ(fs::file_size(trace_ / "index/channel0_3.idx"), trace::kIndexHeaderSize + trace::kIndexEntrySize);
}

TEST_F(TraceDirectoryTest, RingOfEachChannelHasFilesOfItsOwn) {
    ASSERT_TRUE(write({.channel = 0, .ring = 0}, 10));
    ASSERT_TRUE(write({.channel = 1, .ring = 0}, 20));
    ASSERT_TRUE(write({.channel = 1, .ring = 0}, 30));
    EXPECT_EQ(fs::file_size(trace_ / "channel0_0"), ctf::kPacketHeaderSize + 10);
    EXPECT_EQ(fs::file_size(trace_ / "other_0"), 2 * ctf::kPacketHeaderSize + 20 + 30);
    EXPECT_EQ(fs::file_size(trace_ / "index/channel0_0.idx"), trace::kIndexHeaderSize + trace::kIndexEntrySize);
    EXPECT_EQ(fs::file_size(trace_ / "index/other_0.idx"), trace::kIndexHeaderSize + 2 * trace::kIndexEntrySize);
}

TEST_F(TraceDirectoryTest, MetadataUnitsFollowEachOther) {
    ASSERT_TRUE(output_->write_metadata("one\n"));
    ASSERT_TRUE(output_->write_metadata("two\n"));
    EXPECT_EQ(contents(trace_ / "metadata"), "one\ntwo\n");
    EXPECT_EQ(output_->metadata_bytes(), 8U);
}

std::string clock_at(const char* offset) {
    return fmt::format("/* CTF 1.8 */\n\nclock {{\n\toffset = {:>4};\n}};\n", offset);
}

TEST_F(TraceDirectoryTest, ClockMovesInANewFileAndUnitsFollow) {
    ASSERT_TRUE(output_->write_metadata(clock_at("123")));
    const std::ifstream before(trace_ / "metadata", std::ios::binary);
    ASSERT_TRUE(output_->write_metadata("one\n"));
    EXPECT_EQ(output_->set_clock_offset(4567), clock_at("4567") + "one\n");
    EXPECT_EQ(contents(trace_ / "metadata"), clock_at("4567") + "one\n");
    EXPECT_EQ((std::string{std::istreambuf_iterator<char>(before.rdbuf()), {}}), clock_at("123") + "one\n");
    ASSERT_TRUE(output_->write_metadata("two\n"));
    EXPECT_EQ(contents(trace_ / "metadata"), clock_at("4567") + "one\ntwo\n");
    ASSERT_TRUE(output_->prepare_chunk(scratch_.path() / "next"));
    EXPECT_EQ(contents(scratch_.path() / "next/ust/uid/1000/64-bit/metadata"), clock_at("4567") + "one\ntwo\n");
    output_->drop_chunk();
    output_->remove_if_unused();
    EXPECT_FALSE(fs::exists(root_));
}

TEST_F(TraceDirectoryTest, NextChunkBeginsWithTheHorizonOfTheOneBefore) {
    output_->cycle_done(42);
    // Also of one that has published nothing.
    for (const char* const name : {"next", "one more"}) {
        const fs::path next = scratch_.path() / name;
        ASSERT_TRUE(output_->prepare_chunk(next));
        const auto sync = trace::SyncReader::open(next / "ust/uid/1000/64-bit");
        ASSERT_TRUE(sync && *sync);
        const trace::SyncState state = *(*sync)->read();
        EXPECT_EQ(state.generation, 0U);
        EXPECT_EQ(state.horizon, 42U);
        ASSERT_TRUE(output_->begin_chunk());
    }
}

// Followers do not wait for it.
TEST_F(TraceDirectoryTest, ChunkThatIsDroppedHasNoWriter) {
    const fs::path next = scratch_.path() / "next";
    ASSERT_TRUE(output_->prepare_chunk(next));
    const auto sync = trace::SyncReader::open(next / "ust/uid/1000/64-bit");
    ASSERT_TRUE(sync && *sync);
    EXPECT_FALSE((*sync)->is_writer_gone());
    output_->drop_chunk();
    EXPECT_TRUE((*sync)->is_writer_gone());
}

// Who has events for it tries again.
TEST_F(TraceDirectoryTest, TraceThatDidNotFitOnTheDiskLeavesNothing) {
    {
        const FileSizeLimit full(10);
        auto created = TraceDirectory::create(root_, "ust/pid/other", {{"channel0"}});
        ASSERT_TRUE(created) << created.error().message;
        EXPECT_FALSE((*created)->write_metadata("more than fits"));
        (*created)->remove_if_unused();
    }
    EXPECT_FALSE(fs::exists(root_ / "ust/pid"));
    EXPECT_TRUE(TraceDirectory::create(root_, "ust/pid/other", {{"channel0"}}));
}

TEST_F(TraceDirectoryTest, FullDiskKeepsTheClock) {
    ASSERT_TRUE(output_->write_metadata(clock_at("123")));
    {
        const FileSizeLimit limit(10);
        EXPECT_FALSE(output_->set_clock_offset(4567));
    }
    EXPECT_EQ(contents(trace_ / "metadata"), clock_at("123"));
    EXPECT_FALSE(fs::exists(trace_ / ".metadata.new"));
    ASSERT_TRUE(output_->write_metadata("one\n"));
    EXPECT_EQ(contents(trace_ / "metadata"), clock_at("123") + "one\n");
}

// The process before may have been killed before or after it put the new file in place.
TEST_F(TraceDirectoryTest, WhoGoesOnHasTheClockThatWasKept) {
    ASSERT_TRUE(output_->write_metadata(clock_at("123") + "one\n"));
    std::ofstream(trace_ / ".metadata.new") << "half of";
    const auto next = TraceDirectory::resume(root_, "ust/uid/1000/64-bit", {{"channel0"}, {"other"}}, {}, {});
    ASSERT_TRUE(next);
    EXPECT_FALSE(fs::exists(trace_ / ".metadata.new"));
    ASSERT_TRUE((*next)->restore_metadata(clock_at("4567") + "one\ntwo\n"));
    ASSERT_TRUE((*next)->write_metadata("three\n"));
    EXPECT_EQ(contents(trace_ / "metadata"), clock_at("4567") + "one\ntwo\nthree\n");
}

TEST_F(TraceDirectoryTest, IndexSaysWhereEachPacketLies) {
    ASSERT_TRUE(write(0, 10));
    ASSERT_TRUE(write(0, 20));
    ASSERT_TRUE(write(0, 0));
    const std::uint64_t second = ctf::kPacketHeaderSize + 10;
    const std::uint64_t third = second + ctf::kPacketHeaderSize + 20;
    EXPECT_EQ(contents(trace_ / "index/channel0_0.idx"),
              text(trace::encode_index_header()) +
                  text(trace::encode_index_entry(ctf::index_entry_of(header(0, 10), 0))) +
                  text(trace::encode_index_entry(ctf::index_entry_of(header(0, 20), second))) +
                  text(trace::encode_index_entry(ctf::index_entry_of(header(0, 0), third))));
    EXPECT_EQ(contents(trace_ / "channel0_0").substr(second, ctf::kPacketHeaderSize), text(ctf::encode(header(0, 20))));
}

TEST_F(TraceDirectoryTest, FullDiskLeavesOnlyWholePackets) {
    ASSERT_TRUE(write(0, 100));
    const std::string before = contents(trace_ / "channel0_0");
    {
        const FileSizeLimit limit(before.size() + 150);
        const auto written = write(0, 1000);
        ASSERT_FALSE(written);
        EXPECT_EQ(written.error().kind, ErrorKind::kIo);
        EXPECT_EQ(contents(trace_ / "channel0_0"), before);
    }
    ASSERT_TRUE(write(0, 50));
    EXPECT_EQ(fs::file_size(trace_ / "channel0_0"), before.size() + ctf::kPacketHeaderSize + 50);
    EXPECT_EQ(contents(trace_ / "index/channel0_0.idx").substr(trace::kIndexHeaderSize + trace::kIndexEntrySize),
              text(trace::encode_index_entry(ctf::index_entry_of(header(0, 50), before.size()))));
}

// The first packet is smaller than the index header and one entry. Its data fits on the disk, its entry does not.
TEST_F(TraceDirectoryTest, PacketWithoutIndexEntryIsTakenBack) {
    {
        static_assert(ctf::kPacketHeaderSize < trace::kIndexHeaderSize + trace::kIndexEntrySize);
        const FileSizeLimit limit(ctf::kPacketHeaderSize);
        EXPECT_FALSE(write(0, 0));
        EXPECT_EQ(fs::file_size(trace_ / "channel0_0"), 0U);
        EXPECT_EQ(contents(trace_ / "index/channel0_0.idx"), text(trace::encode_index_header()));
    }
    ASSERT_TRUE(write(0, 0));
    EXPECT_EQ(fs::file_size(trace_ / "channel0_0"), ctf::kPacketHeaderSize);
}

TEST_F(TraceDirectoryTest, FullDiskLeavesWholeMetadataUnits) {
    ASSERT_TRUE(output_->write_metadata("one\n"));
    {
        const FileSizeLimit limit(6);
        EXPECT_FALSE(output_->write_metadata("two\n"));
        EXPECT_EQ(contents(trace_ / "metadata"), "one\n");
    }
    ASSERT_TRUE(output_->write_metadata("two\n"));
    EXPECT_EQ(contents(trace_ / "metadata"), "one\ntwo\n");
}

TEST_F(TraceDirectoryTest, StreamThatCouldNotBeginIsTriedAgain) {
    {
        const FileSizeLimit limit(trace::kIndexHeaderSize - 1);
        EXPECT_FALSE(write(0, 10));
    }
    ASSERT_TRUE(write(0, 10));
    EXPECT_EQ(fs::file_size(trace_ / "index/channel0_0.idx"), trace::kIndexHeaderSize + trace::kIndexEntrySize);
}

// What their owner has put there stays, and nothing is removed through a link.
TEST_F(TraceDirectoryTest, EndedTracesAreRemovedAndOthersGoOn) {
    const fs::path processes = scratch_.path() / "trace/ust/pid";
    for (const char* const name : {"ended", "going-on"}) {
        auto of_process = *TraceDirectory::create(root_, fs::path("ust/pid") / name, {{"channel0"}});
        ASSERT_TRUE(of_process->write_metadata("metadata"));
        const std::vector<std::byte> records(5, std::byte{'r'});
        ASSERT_TRUE(of_process->write_packet({.stream = {}, .header = header(0, 5), .records = records}));
    }
    fs::create_directory(scratch_.path() / "elsewhere");
    std::ofstream(scratch_.path() / "elsewhere/metadata") << "x";
    fs::create_symlink(scratch_.path() / "elsewhere", processes / "link");
    std::ofstream(processes / "file") << "x";
    ASSERT_TRUE(TraceDirectory::remove_ended(processes, {processes / "going-on"}, {{"channel0"}}));
    EXPECT_FALSE(fs::exists(processes / "ended"));
    EXPECT_TRUE(fs::exists(processes / "file"));
    EXPECT_TRUE(fs::exists(processes / "going-on/channel0_0"));
    EXPECT_TRUE(fs::exists(scratch_.path() / "elsewhere/metadata"));
    std::ofstream(processes / "going-on/mine") << "x";
    std::ofstream(processes / "going-on/index/mine.idx") << "x";
    ASSERT_TRUE(TraceDirectory::remove_ended(processes, {}, {{"channel0"}}));
    EXPECT_FALSE(fs::exists(processes / "going-on/channel0_0"));
    EXPECT_FALSE(fs::exists(processes / "going-on/metadata"));
    EXPECT_TRUE(fs::exists(processes / "going-on/mine"));
    EXPECT_TRUE(fs::exists(processes / "going-on/index/mine.idx"));
    EXPECT_TRUE(TraceDirectory::remove_ended(scratch_.path() / "none", {}, {}));
}

// The metadata were theirs to replace.
TEST_F(TraceDirectoryTest, DirectoryInPlaceOfMetadataKeepsNoTrace) {
    const fs::path processes = scratch_.path() / "trace/ust/pid";
    auto of_process = *TraceDirectory::create(root_, "ust/pid/ended", {{"channel0"}});
    fs::remove(processes / "ended/metadata");
    fs::create_directories(processes / "ended/metadata/full");
    of_process.reset();
    EXPECT_TRUE(TraceDirectory::remove_ended(processes, {}, {{"channel0"}}));
    EXPECT_FALSE(fs::exists(processes / "ended/index"));
}

TEST_F(TraceDirectoryTest, FileInPlaceOfTheIndexesKeepsNoTrace) {
    const fs::path processes = scratch_.path() / "trace/ust/pid";
    auto of_process = *TraceDirectory::create(root_, "ust/pid/ended", {{"channel0"}});
    fs::remove(processes / "ended/index");
    std::ofstream(processes / "ended/index") << "mine";
    of_process.reset();
    EXPECT_TRUE(TraceDirectory::remove_ended(processes, {}, {{"channel0"}}));
    EXPECT_FALSE(fs::exists(processes / "ended/metadata"));
    EXPECT_EQ(contents(processes / "ended/index"), "mine");
}

// As a recorder leaves it that was killed.
TEST_F(TraceDirectoryTest, NothingStaysOfAnEndedTraceThatCouldBeFollowed) {
    const fs::path processes = scratch_.path() / "trace/ust/pid";
    (*TraceDirectory::create(root_, "ust/pid/ended", {{"channel0"}})).reset();
    std::ofstream(processes / "ended/.leat-sync") << "x";
    EXPECT_TRUE(TraceDirectory::remove_ended(processes, {}, {{"channel0"}}));
    EXPECT_FALSE(fs::exists(processes / "ended"));
}

// A session has several traces.
TEST_F(TraceDirectoryTest, OtherTracesStayWhenAnUnusedOneIsTakenBack) {
    ASSERT_TRUE(output_->write_metadata("/* CTF 1.8 */\n"));
    ASSERT_TRUE(write(3, 10));
    auto other = *TraceDirectory::create(root_, "ust/uid/1001/64-bit", {{"channel0"}});
    ASSERT_TRUE(other->write_metadata("/* CTF 1.8 */\n"));
    other->remove_if_unused();
    EXPECT_FALSE(fs::exists(root_ / "ust/uid/1001"));
    EXPECT_TRUE(fs::exists(trace_ / "metadata"));
    EXPECT_TRUE(fs::exists(trace_ / "channel0_3"));
}

TEST_F(TraceDirectoryTest, NothingStaysOfAChunkThatIsDropped) {
    ASSERT_TRUE(output_->write_metadata(std::string(1000, 'm')));
    const fs::path next = scratch_.path() / "next";
    {
        const FileSizeLimit full(500);
        EXPECT_FALSE(output_->prepare_chunk(next));
    }
    output_->drop_chunk();
    EXPECT_FALSE(fs::exists(next));
    EXPECT_TRUE(output_->prepare_chunk(next));
}

TEST_F(TraceDirectoryTest, TraceThatCouldNotBeMadeCanBeMadeLater) {
    // UBSan needs descriptors when it meets a type for the first time: this one, and where messages are formatted.
    EXPECT_FALSE(TraceDirectory::create("/dev/null", "ust/uid/1001/64-bit", {{"channel0"}}));
    const auto root = root_;
    {
        const UniqueFd lowest(::dup(0));
        // One for the directory of the user, one for that of the trace.
        const test::FewDescriptorsLeft few(2);
        EXPECT_FALSE(TraceDirectory::create(root, "ust/uid/1001/64-bit", {{"channel0"}}));
    }
    EXPECT_TRUE(TraceDirectory::create(root, "ust/uid/1001/64-bit", {{"channel0"}}));
}

TEST_F(TraceDirectoryTest, UnusedIsTakenBack) {
    ASSERT_TRUE(output_->write_metadata("one\n"));
    output_->remove_if_unused();
    EXPECT_FALSE(fs::exists(root_));
}

// Its first packet in this chunk never came, and perhaps none comes any more.
TEST_F(TraceDirectoryTest, FilesThatWereBeingMadeGoAwayWhenItIsResumed) {
    ASSERT_TRUE(write(1, 5));
    output_.reset();
    std::ofstream(trace_ / "index/channel0_2.idx") << "";
    ASSERT_TRUE(TraceDirectory::resume(root_, "ust/uid/1000/64-bit", {{"channel0"}, {"other"}}, {},
                                       {{{.channel = 0, .ring = 1}, 1}, {{.channel = 0, .ring = 2}, 7}}));
    EXPECT_FALSE(fs::exists(trace_ / "index/channel0_2.idx"));
    EXPECT_TRUE(fs::exists(trace_ / "index/channel0_1.idx"));
}

TEST_F(TraceDirectoryTest, UsedIsNotTakenBack) {
    ASSERT_TRUE(write(0, 10));
    output_->remove_if_unused();
    EXPECT_TRUE(fs::exists(trace_ / "channel0_0"));
}

// With one packet of 3 events of each of two streams. What is written later has 4.
class RemovedTraceTest : public TraceDirectoryTest {
  protected:
    RemovedTraceTest() {
        EXPECT_TRUE(output_->write_metadata("text"));
        write_events(0, 3);
        write_events(1, 3);
    }
    void write_events(std::uint32_t ring, std::uint64_t events) {
        const std::vector<std::byte> records(10);
        EXPECT_TRUE(output_->write_packet(
            {.stream = {.ring = ring}, .header = header(ring, 10), .records = records, .events = events}));
    }
    void expect_told() {
        EXPECT_EQ(output_->take_warnings(),
                  std::vector{trace_.string() + " was removed, or files in it: what is recorded there is lost"});
    }
};

TEST_F(RemovedTraceTest, LosesEventsAndTellsOnce) {
    EXPECT_EQ(output_->events_lost(), 0U);
    fs::remove_all(root_);
    write_events(0, 4);
    EXPECT_EQ(output_->events_lost(), 4U);
    expect_told();
    write_events(1, 4);
    EXPECT_EQ(output_->events_lost(), 8U);
    EXPECT_TRUE(output_->take_warnings().empty());
}

TEST_F(RemovedTraceTest, LosesNewStreamsToo) {
    fs::remove_all(root_);
    write_events(5, 4);
    EXPECT_EQ(output_->events_lost(), 4U);
    expect_told();
}

TEST_F(RemovedTraceTest, LosesWhatWouldGoIntoANewFile) {
    output_ = *TraceDirectory::create(scratch_.path() / "of-limit", "t", {{"channel0", {.size = 200, .count = 2}}});
    write_events(0, 4);
    fs::remove_all(scratch_.path() / "of-limit");
    for (int i = 0; i < 3; ++i) write_events(0, 4);
    EXPECT_EQ(output_->events_lost(), 12U);
}

// The next file has the name of the one before, which has gone for it.
TEST_F(RemovedTraceTest, SingleFileThatCannotBeReplacedIsNotLost) {
    output_ = *TraceDirectory::create(scratch_.path() / "of-one", "t", {{"channel0", {.size = 200, .count = 1}}});
    write_events(0, 4);
    const std::vector<std::byte> records(100);
    const consumer::Packet packet{.header = header(0, 100), .records = records, .events = 4};
    {
        const FileSizeLimit limit(0);
        EXPECT_FALSE(output_->write_packet(packet));
        EXPECT_FALSE(output_->write_packet(packet));
    }
    EXPECT_EQ(output_->events_lost(), 0U);
    write_events(0, 4);
    EXPECT_TRUE(output_->write_packet(packet));
    EXPECT_EQ(output_->events_lost(), 0U);
}

TEST_F(RemovedTraceTest, WithoutMetadataAllIsLostUntilTheyAreWrittenAgain) {
    ASSERT_TRUE(output_->restore_metadata("clock { offset = 00000000000000000000; };"));
    fs::remove(trace_ / "metadata");
    write_events(0, 4);
    EXPECT_EQ(output_->events_lost(), 4U);
    ASSERT_TRUE(output_->restore_metadata("another"));
    EXPECT_EQ(contents(trace_ / "metadata"), "another");
    EXPECT_EQ(output_->events_lost(), 0U);
}

TEST_F(RemovedTraceTest, WithoutDirectoryOfIndexesNewStreamsAreLost) {
    fs::remove_all(trace_ / "index");
    write_events(0, 4);
    EXPECT_EQ(output_->events_lost(), 0U);
    write_events(5, 4);
    EXPECT_EQ(output_->events_lost(), 4U);
}

// Who shares a session with the owner of this directory can rotate it all the same.
TEST_F(RemovedTraceTest, FileWhosePlaceIsTakenByADirectoryOfItsOwnerIsLost) {
    output_ = *TraceDirectory::create(scratch_.path() / "given", "t", {{"channel0"}}, ::geteuid());
    trace_ = scratch_.path() / "given/t";
    ASSERT_TRUE(output_->write_metadata("text"));
    fs::create_directories(trace_ / "channel0_5/full");
    fs::create_directories(trace_ / "index/channel0_6.idx/full");
    write_events(5, 4);
    write_events(6, 4);
    write_events(0, 4);
    EXPECT_EQ(output_->events_lost(), 8U);
    expect_told();
    fs::remove_all(trace_ / "channel0_5");
    write_events(5, 4);
    EXPECT_EQ(output_->events_lost(), 8U);
    fs::remove(trace_ / "metadata");
    fs::create_directory(trace_ / "metadata");
    write_events(0, 4);
    EXPECT_EQ(output_->events_lost(), 12U);
}

TEST_F(RemovedTraceTest, AllThatIsInItIsLostToo) {
    for (const auto& entry : fs::directory_iterator(trace_)) fs::remove_all(entry.path());
    write_events(5, 4);
    write_events(0, 4);
    EXPECT_EQ(output_->events_lost(), 8U);
}

TEST_F(RemovedTraceTest, OnAFullDiskIsRemovedAllTheSame) {
    const FileSizeLimit limit(0);
    fs::remove_all(root_);
    write_events(0, 4);
    write_events(5, 4);
    EXPECT_EQ(output_->events_lost(), 8U);
}

TEST_F(RemovedTraceTest, FileOfAStreamIsLostAlone) {
    fs::remove(trace_ / "channel0_0");
    write_events(0, 4);
    write_events(1, 4);
    EXPECT_EQ(output_->events_lost(), 4U);
    expect_told();
}

TEST_F(RemovedTraceTest, WithoutMetadataAllIsLost) {
    fs::remove(trace_ / "metadata");
    write_events(0, 4);
    EXPECT_EQ(output_->events_lost(), 4U);
    expect_told();
}

TEST_F(RemovedTraceTest, MetadataOfSomebodyElseDo) {
    std::ofstream(trace_ / "other") << "text";
    fs::rename(trace_ / "other", trace_ / "metadata");
    write_events(0, 4);
    EXPECT_EQ(output_->events_lost(), 0U);
}

TEST_F(RemovedTraceTest, WhatIsMovedIsNotLost) {
    fs::rename(root_, scratch_.path() / "moved");
    write_events(0, 4);
    EXPECT_EQ(output_->events_lost(), 0U);
    EXPECT_TRUE(output_->take_warnings().empty());
}

TEST_F(RemovedTraceTest, NextChunkIsThereAgain) {
    fs::remove_all(root_);
    write_events(0, 4);
    expect_told();
    ASSERT_TRUE(output_->prepare_chunk(scratch_.path() / "next"));
    ASSERT_TRUE(output_->begin_chunk());
    write_events(0, 4);
    EXPECT_EQ(output_->events_lost(), 4U);
    EXPECT_TRUE(output_->take_warnings().empty());
    fs::remove_all(scratch_.path() / "next");
    write_events(0, 4);
    EXPECT_EQ(output_->events_lost(), 8U);
    EXPECT_EQ(output_->take_warnings().size(), 1U);
}

TEST(TraceDirectoryCreation, EmptyDirectoryIsTaken) {
    const test::ScratchDirectory scratch;
    EXPECT_TRUE(TraceDirectory::prepare(scratch.path()));
    EXPECT_TRUE(TraceDirectory::create(scratch.path(), "ust/uid/0/64-bit", {{"channel0"}}));
}

TEST(TraceDirectoryCreation, TraceThatIsThereIsNotTouched) {
    const test::ScratchDirectory scratch;
    const auto first = TraceDirectory::create(scratch.path(), "ust/uid/0/64-bit", {{"channel0"}});
    ASSERT_TRUE((*first)->write_metadata("first"));
    EXPECT_FALSE(TraceDirectory::create(scratch.path(), "ust/uid/0/64-bit", {{"channel0"}}));
    EXPECT_EQ(contents(scratch.path() / "ust/uid/0/64-bit/metadata"), "first");
}

// A user has it in the place of a trace that is to come: that is no reason to refuse others a rotation.
TEST(TraceDirectoryCreation, LinkToNowhereInItsPlaceIsRefused) {
    const test::ScratchDirectory scratch;
    fs::create_directories(scratch.path() / "ust/uid/0");
    fs::create_symlink("/nowhere", scratch.path() / "ust/uid/0/32-bit");
    const auto made = TraceDirectory::create(scratch.path(), "ust/uid/0/32-bit", {{"channel0"}});
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().kind, ErrorKind::kRefused);
}

TEST(TraceDirectoryCreation, TracesOfASessionShareItsDirectory) {
    const test::ScratchDirectory scratch;
    const fs::path session = scratch.path() / "a/b";
    ASSERT_TRUE(TraceDirectory::prepare(session));
    EXPECT_TRUE(TraceDirectory::create(session, "ust/uid/0/64-bit", {{"channel0"}}));
    EXPECT_TRUE(TraceDirectory::create(session, "ust/uid/1000/64-bit", {{"channel0"}}));
    EXPECT_TRUE(fs::exists(session / "ust/uid/0/64-bit/metadata"));
    EXPECT_TRUE(fs::exists(session / "ust/uid/1000/64-bit/metadata"));
}

TEST(TraceDirectoryCreation, NonEmptyDirectoryIsRefusedWithTheRemedy) {
    const test::ScratchDirectory scratch;
    std::ofstream(scratch.path() / "mine") << "x";
    const auto prepared = TraceDirectory::prepare(scratch.path());
    ASSERT_FALSE(prepared);
    EXPECT_EQ(prepared.error().kind, ErrorKind::kRefused);
    EXPECT_EQ(prepared.error().message, scratch.path().string() + " exists and is not empty: choose another with -o");
    EXPECT_FALSE(fs::exists(scratch.path() / "ust"));
}

TEST(TraceDirectoryCreation, FileInItsPlaceIsRefused) {
    const test::ScratchDirectory scratch;
    std::ofstream(scratch.path() / "file") << "x";
    EXPECT_FALSE(TraceDirectory::create(scratch.path() / "file", "ust/uid/0/64-bit", {{"channel0"}}));
    EXPECT_FALSE(TraceDirectory::create(scratch.path() / "file" / "below", "ust/uid/0/64-bit", {{"channel0"}}));
}

}  // namespace
}  // namespace leat::output
