#include "output/trace_directory.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <fstream>
#include <iterator>

#include "support/scratch_directory.hpp"
#include "trace/index_format.hpp"

namespace leat::output {
namespace {

namespace fs = std::filesystem;

std::string contents(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

std::string text(UntrustedBytes bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};  // NOLINT(*-reinterpret-cast)
}

// Limits the size of all files, as a full disk does.
class FileSizeLimit {
  public:
    explicit FileSizeLimit(rlim_t bytes) {
        ::signal(SIGXFSZ, SIG_IGN);
        ::getrlimit(RLIMIT_FSIZE, &before_);
        const rlimit limit{bytes, before_.rlim_max};
        ::setrlimit(RLIMIT_FSIZE, &limit);
    }
    ~FileSizeLimit() {
        ::setrlimit(RLIMIT_FSIZE, &before_);
        ::signal(SIGXFSZ, SIG_DFL);
    }
    FileSizeLimit(const FileSizeLimit&) = delete;
    FileSizeLimit& operator=(const FileSizeLimit&) = delete;

  private:
    rlimit before_{};
};

class TraceDirectoryTest : public testing::Test {
  protected:
    static constexpr uid_t kUser = 1000;

    // Writes the next packet of a stream, with `size` bytes of records.
    Result<void> write(std::uint64_t stream, std::size_t size) {
        const std::vector<std::byte> records(size, std::byte{'r'});
        return output_->write_packet({header(stream, size), records});
    }
    static ctf::PacketHeader header(std::uint64_t stream, std::size_t size) {
        const std::uint64_t bits = (ctf::kPacketHeaderSize + size) * 8;
        return {.stream_instance_id = stream, .content_size = bits, .packet_size = bits};
    }

    test::ScratchDirectory scratch_;
    fs::path root_ = scratch_.path() / "trace";
    fs::path trace_ = root_ / "ust/uid/1000/64-bit";
    std::unique_ptr<TraceDirectory> output_ = *TraceDirectory::create(root_, kUser, "channel0");
};

TEST_F(TraceDirectoryTest, IsLaidOutAsLttngs) {
    ASSERT_TRUE(output_->write_metadata("/* CTF 1.8 */\n"));
    ASSERT_TRUE(write(3, 10));
    EXPECT_EQ(contents(trace_ / "metadata"), "/* CTF 1.8 */\n");
    EXPECT_EQ(fs::file_size(trace_ / "channel0_3"), ctf::kPacketHeaderSize + 10);
    EXPECT_EQ(fs::file_size(trace_ / "index/channel0_3.idx"), trace::kIndexHeaderSize + trace::kIndexEntrySize);
}

TEST_F(TraceDirectoryTest, MetadataUnitsFollowEachOther) {
    ASSERT_TRUE(output_->write_metadata("one\n"));
    ASSERT_TRUE(output_->write_metadata("two\n"));
    EXPECT_EQ(contents(trace_ / "metadata"), "one\ntwo\n");
    EXPECT_EQ(output_->metadata_bytes(), 8U);
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

TEST_F(TraceDirectoryTest, UnusedIsTakenBack) {
    ASSERT_TRUE(output_->write_metadata("one\n"));
    output_->remove_if_unused();
    EXPECT_FALSE(fs::exists(root_));
}

TEST_F(TraceDirectoryTest, UsedIsNotTakenBack) {
    ASSERT_TRUE(write(0, 10));
    output_->remove_if_unused();
    EXPECT_TRUE(fs::exists(trace_ / "channel0_0"));
}

TEST(TraceDirectoryCreation, EmptyDirectoryIsTaken) {
    const test::ScratchDirectory scratch;
    EXPECT_TRUE(TraceDirectory::create(scratch.path(), 0, "channel0"));
}

TEST(TraceDirectoryCreation, NonEmptyDirectoryIsRefusedWithTheRemedy) {
    const test::ScratchDirectory scratch;
    std::ofstream(scratch.path() / "mine") << "x";
    const auto output = TraceDirectory::create(scratch.path(), 0, "channel0");
    ASSERT_FALSE(output);
    EXPECT_EQ(output.error().kind, ErrorKind::kRefused);
    EXPECT_EQ(output.error().message, scratch.path().string() + " exists and is not empty: choose another with -o");
    EXPECT_FALSE(fs::exists(scratch.path() / "ust"));
}

TEST(TraceDirectoryCreation, FileInItsPlaceIsRefused) {
    const test::ScratchDirectory scratch;
    std::ofstream(scratch.path() / "file") << "x";
    EXPECT_FALSE(TraceDirectory::create(scratch.path() / "file", 0, "channel0"));
    EXPECT_FALSE(TraceDirectory::create(scratch.path() / "file" / "below", 0, "channel0"));
}

}  // namespace
}  // namespace leat::output
