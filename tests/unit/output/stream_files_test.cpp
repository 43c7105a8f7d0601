// Files of a stream that roll. For streams of one file see trace_directory_test.cpp and trace_files_test.cpp.
#include "output/stream_files.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <set>

#include "base/descriptors.hpp"
#include "output/trace_files.hpp"
#include "support/resource_limit.hpp"
#include "support/scratch_directory.hpp"
#include "trace/index_format.hpp"
#include "trace/stream_paths.hpp"

namespace leat::output {
namespace {

namespace fs = std::filesystem;

constexpr consumer::StreamId kStream{.channel = 0, .ring = 3};
constexpr std::size_t kPacket = 100;  // bytes

class RolledStream : public testing::Test {
  protected:
    explicit RolledStream(trace::FileLimits limits = {.size = 3 * kPacket, .count = 3})
        : channels_{{.name = "c", .limits = limits}, {.name = "other"}},
          files_(*TraceFiles::create(trace_, channels_, std::nullopt)) {}

    Result<void> write_one(std::size_t size = kPacket) {
        const std::vector<std::byte> records(size - ctf::kPacketHeaderSize, std::byte{'r'});
        auto written = files_->write_packet({.stream = kStream,
                                             .header = {.stream_instance_id = kStream.ring,
                                                        .content_size = size * 8,
                                                        .packet_size = size * 8,
                                                        .packet_seq_num = next_},
                                             .records = records});
        if (written) ++next_;
        return written;
    }
    void write(int count) {
        for (int i = 0; i < count; ++i) EXPECT_TRUE(write_one());
    }

    // As after a kill: packets below `next` are known to be stored.
    void resume(std::uint64_t next) {
        files_ = *TraceFiles::resume(trace_, channels_, std::nullopt, {{kStream, next}});
        next_ = next;
    }

    // The numbers of the packets in a file by its index; none: there is no such file.
    [[nodiscard]] std::vector<std::uint64_t> packets(const std::string& name) const {
        std::ifstream file(trace_ / "index" / (name + ".idx"), std::ios::binary);
        const std::string index{std::istreambuf_iterator<char>(file), {}};
        std::vector<std::uint64_t> numbers;
        std::uint64_t size = 0;
        for (std::size_t at = trace::kIndexHeaderSize; at < index.size(); at += trace::kIndexEntrySize) {
            const auto entry =
                trace::parse_index_entry(std::as_bytes(std::span(index)).subspan(at, trace::kIndexEntrySize));
            EXPECT_EQ(entry->offset, size);
            size += entry->packet_size / 8;
            numbers.push_back(entry->packet_seq_num);
        }
        EXPECT_EQ(fs::file_size(trace_ / name), size) << name;
        return numbers;
    }
    [[nodiscard]] std::set<std::string> names() const {
        std::set<std::string> names;
        for (const fs::directory_entry& entry : fs::directory_iterator(trace_))
            if (entry.path().filename().string().starts_with("c_")) names.insert(entry.path().filename());
        return names;
    }
    using Numbers = std::vector<std::uint64_t>;

    test::ScratchDirectory scratch_;
    fs::path trace_ = scratch_.path() / "trace";
    std::vector<ChannelFiles> channels_;
    std::unique_ptr<TraceFiles> files_;
    std::uint64_t next_ = 0;
};

// The reserve is for others: docs/architecture.md, "One user's programs take nothing that others need".
TEST_F(RolledStream, BeginsWhenThereAreDescriptors) {
    const test::LowerLimit few(RLIMIT_NOFILE, 80);
    std::vector<UniqueFd> opened;
    while (!are_descriptors_scarce()) opened.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    opened.pop_back();
    EXPECT_TRUE(is_disk_full(write_one()));
    EXPECT_EQ(names(), std::set<std::string>());
    opened.pop_back();
    EXPECT_TRUE(write_one());
}

class RolledStreamWithoutCount : public RolledStream {
  protected:
    RolledStreamWithoutCount() : RolledStream({.size = 2 * kPacket}) {}
};

class RolledStreamOfOneFile : public RolledStream {
  protected:
    RolledStreamOfOneFile() : RolledStream({.size = 2 * kPacket, .count = 1}) {}
};

TEST_F(RolledStream, FilesAreFilledInTurn) {
    write(7);
    EXPECT_EQ(names(), (std::set<std::string>{"c_3_0", "c_3_1", "c_3_2"}));
    EXPECT_EQ(packets("c_3_0"), (Numbers{0, 1, 2}));
    EXPECT_EQ(packets("c_3_1"), (Numbers{3, 4, 5}));
    EXPECT_EQ(packets("c_3_2"), (Numbers{6}));
}

TEST_F(RolledStream, OldestIsReplacedByANewFile) {
    write(1);
    const fs::path linked = scratch_.path() / "linked";
    fs::create_hard_link(trace_ / "c_3_0", linked);
    write(10);
    EXPECT_EQ(packets("c_3_0"), (Numbers{9, 10}));
    EXPECT_EQ(packets("c_3_1"), (Numbers{3, 4, 5}));
    EXPECT_EQ(names().size(), 3U);
    EXPECT_EQ(fs::file_size(linked), 3 * kPacket);  // readers keep it
}

TEST_F(RolledStream, PacketIsNotSplit) {
    write(2);
    ASSERT_TRUE(write_one(2 * kPacket));
    ASSERT_TRUE(write_one(10 * kPacket));  // more than a file may have
    write(1);
    EXPECT_EQ(packets("c_3_0"), (Numbers{4}));
    EXPECT_EQ(packets("c_3_1"), (Numbers{2}));
    EXPECT_EQ(packets("c_3_2"), (Numbers{3}));
}

TEST_F(RolledStreamWithoutCount, AllFilesAreKept) {
    write(25);
    EXPECT_EQ(names().size(), 13U);
    EXPECT_EQ(packets("c_3_12"), (Numbers{24}));
}

TEST_F(RolledStream, NextProcessGoesOnInTheNewestFile) {
    for (std::uint64_t number = 1; number < 20; ++number) {
        write(1);
        resume(number);
    }
    EXPECT_EQ(packets("c_3_0"), (Numbers{18}));
    EXPECT_EQ(packets("c_3_1"), (Numbers{12, 13, 14}));
    EXPECT_EQ(packets("c_3_2"), (Numbers{15, 16, 17}));
}

TEST_F(RolledStreamWithoutCount, NextProcessGoesOnInTheNewestFile) {
    write(21);
    resume(21);
    write(2);
    EXPECT_EQ(names().size(), 12U);
    EXPECT_EQ(packets("c_3_10"), (Numbers{20, 21}));
    EXPECT_EQ(packets("c_3_11"), (Numbers{22}));
}

// It was killed before it could say that the first packet of the new file is stored.
TEST_F(RolledStream, FileOfAnUnknownPacketIsRemoved) {
    write(10);
    resume(9);
    EXPECT_EQ(names(), (std::set<std::string>{"c_3_1", "c_3_2"}));
    write(1);
    EXPECT_EQ(packets("c_3_0"), (Numbers{9}));
    EXPECT_EQ(packets("c_3_2"), (Numbers{6, 7, 8}));
}

TEST_F(RolledStream, HalfMadeFileIsRemoved) {
    write(9);
    fs::remove(trace_ / "c_3_0");
    fs::resize_file(trace_ / "index/c_3_0.idx", trace::kIndexHeaderSize);
    resume(9);
    EXPECT_FALSE(fs::exists(trace_ / "index/c_3_0.idx"));
    write(1);
    EXPECT_EQ(packets("c_3_0"), (Numbers{9}));
}

TEST_F(RolledStreamOfOneFile, ThatIsReplacedBeginsAnew) {
    write(3);
    EXPECT_EQ(packets("c_3_0"), (Numbers{2}));
    resume(2);
    EXPECT_EQ(names(), std::set<std::string>{});
    write(1);
    EXPECT_EQ(packets("c_3_0"), (Numbers{2}));
}

TEST_F(RolledStream, AllFilesAreRemoved) {
    write(20);
    resume(20);
    std::ofstream(trace_ / "c_3_x") << "mine";
    files_->remove_streams();
    EXPECT_EQ(names(), (std::set<std::string>{"c_3_x"}));
    write(1);
    EXPECT_EQ(packets("c_3_0"), (Numbers{20}));
}

TEST_F(RolledStream, PlaceThatCannotBeMadeIsTriedAgain) {
    write(9);
    fs::remove(trace_ / "c_3_0");
    fs::create_directory(trace_ / "c_3_0");
    EXPECT_FALSE(write_one());
    EXPECT_FALSE(fs::exists(trace_ / "index/c_3_0.idx"));
    fs::remove(trace_ / "c_3_0");
    write(1);
    EXPECT_EQ(packets("c_3_0"), (Numbers{9}));
    EXPECT_EQ(packets("c_3_2"), (Numbers{6, 7, 8}));
}

// Whoever is told of one is told to shorten it.
class UnfinishedFiles : public testing::Test {
  protected:
    UnfinishedFiles() { make(trace_); }

    // A file whose index has no packet.
    static void make(const fs::path& directory) {
        fs::create_directories(directory / trace::kIndexDirectory);
        std::ofstream(directory / "c_0") << "packets";
        const auto header = trace::encode_index_header();
        std::ofstream(trace::index_path(directory / "c_0"), std::ios::binary)
            .write(reinterpret_cast<const char*>(header.data()), header.size());  // NOLINT(*-reinterpret-cast)
    }
    [[nodiscard]] std::vector<fs::path> found(std::optional<uid_t> owner = std::nullopt) const {
        std::vector<fs::path> files;
        for (const UnfinishedFile& file : find_unfinished_files(session_, kPath, owner)) {
            EXPECT_EQ(file.size, 0U);
            EXPECT_EQ(file.beyond, 7U);
            files.push_back(file.file);
        }
        return files;
    }

    static constexpr const char* kPath = "ust/uid/1000/64-bit";
    test::ScratchDirectory scratch_;
    fs::path session_ = scratch_.path() / "session";
    fs::path trace_ = session_ / kPath;
};

TEST_F(UnfinishedFiles, AreThoseOfTheirOwner) {
    EXPECT_EQ(found(), std::vector{trace_ / "c_0"});
    EXPECT_EQ(found(::geteuid()), std::vector{trace_ / "c_0"});
    EXPECT_TRUE(found(::geteuid() + 1).empty());
}

TEST_F(UnfinishedFiles, AreNotWhereALinkLeads) {
    const fs::path other = scratch_.path() / "other";
    make(other);
    fs::remove(trace_ / "c_0");
    fs::create_symlink(other / "c_0", trace_ / "c_0");
    EXPECT_TRUE(found().empty());
    fs::remove_all(trace_);
    fs::create_symlink(other, trace_);
    EXPECT_TRUE(found().empty());
    fs::rename(session_, scratch_.path() / "moved");
    fs::create_symlink(scratch_.path() / "moved", session_);  // of the session itself, somebody may have one
    fs::remove(trace_);
    make(trace_);
    EXPECT_EQ(found(), std::vector{trace_ / "c_0"});
}

}  // namespace
}  // namespace leat::output
