// How another process goes on with files that one has left which was killed. For the rest see trace_directory_test.cpp.
#include "output/trace_files.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

#include "base/unique_fd.hpp"
#include "ring/sanitizers.hpp"
#include "support/descriptor_limit.hpp"
#include "support/scratch_directory.hpp"
#include "trace/index_format.hpp"
#include "trace/sync_file.hpp"

namespace leat::output {
namespace {

namespace fs = std::filesystem;

constexpr consumer::StreamId kStream{.channel = 0, .ring = 3};

std::string contents(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

void append(const fs::path& path, std::string_view text) { std::ofstream(path, std::ios::app) << text; }

class KilledTrace : public testing::Test {
  protected:
    KilledTrace() {
        EXPECT_TRUE(files_->write_metadata("metadata\n"));
        for (std::uint64_t number = 0; number < 3; ++number) EXPECT_TRUE(write(number, 10 * (number + 1)));
        data_before_ = contents(data_);
        index_before_ = contents(index_);
    }

    Result<void> write(std::uint64_t number, std::size_t size, consumer::StreamId stream = kStream) {
        const std::vector<std::byte> records(size, static_cast<std::byte>('a' + number));
        const std::uint64_t bits = (ctf::kPacketHeaderSize + size) * 8;
        return files_->write_packet({.stream = stream,
                                     .header = {.stream_instance_id = stream.ring,
                                                .content_size = bits,
                                                .packet_size = bits,
                                                .packet_seq_num = number},
                                     .records = records});
    }
    static std::size_t size_of(std::size_t records) { return ctf::kPacketHeaderSize + records; }
    static std::size_t index_size(std::size_t packets) {
        return trace::kIndexHeaderSize + packets * trace::kIndexEntrySize;
    }

    // The next packets of streams have these numbers.
    void resume(const TraceFiles::Stored& stored) {
        auto resumed = TraceFiles::resume(trace_, {{"channel0"}, {"other"}}, std::nullopt, stored);
        ASSERT_TRUE(resumed) << resumed.error().message;
        killed_.push_back(std::exchange(files_, *std::move(resumed)));
    }
    void resume_at(std::uint64_t next) { resume({{kStream, next}}); }
    // Three whole packets are there, of which each is of another size; and one more.
    void expect_all_and_one_more() {
        ASSERT_TRUE(write(3, 5));
        EXPECT_EQ(contents(data_).substr(0, data_before_.size()), data_before_);
        EXPECT_EQ(contents(data_).size(), data_before_.size() + size_of(5));
        EXPECT_EQ(contents(index_).substr(0, index_before_.size()), index_before_);
        EXPECT_EQ(entry(3).offset, data_before_.size());
    }
    void expect_begun_anew() {
        ASSERT_TRUE(write(3, 5));
        EXPECT_EQ(fs::file_size(data_), size_of(5));
        EXPECT_EQ(fs::file_size(index_), index_size(1));
        EXPECT_EQ(entry(0).packet_seq_num, 3U);
    }
    [[nodiscard]] ctf::IndexEntry entry(std::size_t number) const {
        const std::string index = contents(index_);
        if (index.size() < index_size(number + 1)) return {};
        return *trace::parse_index_entry(
            std::as_bytes(std::span(index)).subspan(index_size(number), trace::kIndexEntrySize));
    }

    test::ScratchDirectory scratch_;
    fs::path trace_ = scratch_.path() / "ust/uid/1000/64-bit";
    fs::path data_ = trace_ / "channel0_3";
    fs::path index_ = trace_ / "index/channel0_3.idx";
    fs::path elsewhere_ = scratch_.path() / "elsewhere";
    std::unique_ptr<TraceFiles> files_ = *TraceFiles::create(trace_, {{"channel0"}, {"other"}}, std::nullopt);
    std::vector<std::unique_ptr<TraceFiles>> killed_{};  // did not do what is done at the end
    std::string data_before_;
    std::string index_before_;
};

TEST_F(KilledTrace, WholePacketsAreKept) {
    resume_at(3);
    EXPECT_EQ(contents(data_), data_before_);
    EXPECT_EQ(contents(index_), index_before_);
    EXPECT_TRUE(files_->has_streams());
    expect_all_and_one_more();
}

TEST_F(KilledTrace, PacketThatNobodyKnowsIsCutOff) {
    ASSERT_TRUE(write(3, 100));
    resume_at(3);
    EXPECT_EQ(contents(data_), data_before_);
    EXPECT_EQ(contents(index_), index_before_);
    expect_all_and_one_more();
}

TEST_F(KilledTrace, PacketWithoutIndexEntryIsCutOff) {
    append(data_, std::string(size_of(7), '?'));
    resume_at(3);
    EXPECT_EQ(contents(data_), data_before_);
    expect_all_and_one_more();
}

TEST_F(KilledTrace, HalfAnIndexEntryIsCutOff) {
    ASSERT_TRUE(write(3, 100));
    fs::resize_file(index_, index_size(3) + trace::kIndexEntrySize / 2);
    resume_at(3);
    EXPECT_EQ(contents(data_), data_before_);
    EXPECT_EQ(contents(index_), index_before_);
    expect_all_and_one_more();
}

TEST_F(KilledTrace, EntryWithoutItsPacketIsCutOff) {
    fs::resize_file(data_, data_before_.size() - 1);
    resume_at(3);
    EXPECT_EQ(fs::file_size(data_), size_of(10) + size_of(20));
    EXPECT_EQ(fs::file_size(index_), index_size(2));
}

TEST_F(KilledTrace, EachStreamIsCutWhereItIs) {
    constexpr consumer::StreamId kOther{.channel = 1, .ring = 0};
    ASSERT_TRUE(write(0, 1, kOther));
    ASSERT_TRUE(write(1, 2, kOther));
    resume({{kStream, 2}, {kOther, 1}});
    EXPECT_EQ(fs::file_size(data_), size_of(10) + size_of(20));
    EXPECT_EQ(fs::file_size(trace_ / "other_0"), size_of(1));
}

// Its first packet was being written.
TEST_F(KilledTrace, StreamThatHasNotBegunBeginsAnew) {
    resume({});
    EXPECT_FALSE(files_->has_streams());
    expect_begun_anew();
}

TEST_F(KilledTrace, MissingIndexBeginsAnew) {
    fs::remove(index_);
    resume_at(3);
    expect_begun_anew();
}

TEST_F(KilledTrace, MissingDataBeginsAnew) {
    fs::remove(data_);
    resume_at(3);
    expect_begun_anew();
}

TEST_F(KilledTrace, IndexThatIsNoneBeginsAnew) {
    for (const std::string& text : {std::string(), std::string("short"), std::string(500, 'x')}) {
        std::ofstream(index_, std::ios::trunc) << text;
        resume_at(3);
        expect_begun_anew();
    }
}

// An entry that lies about its offset.
TEST_F(KilledTrace, IndexThatLiesIsCutThere) {
    std::string index = index_before_;
    index[index_size(1) + 7] ^= 1;
    std::ofstream(index_, std::ios::trunc) << index;
    resume_at(3);
    EXPECT_EQ(fs::file_size(data_), size_of(10));
    EXPECT_EQ(fs::file_size(index_), index_size(1));
}

// Whatever they lead to, also what would pass for ours.
TEST_F(KilledTrace, LinksAndPipesAreNotOurs) {
    const std::array<std::pair<fs::path, std::string>, 2> before{{{data_, data_before_}, {index_, index_before_}}};
    const auto put = [](const fs::path& path, const std::string& text) {
        fs::remove(path);
        std::ofstream(path) << text;
    };
    for (const auto& [file, text] : before)
        for (const std::string kind : {"symbolic link", "pipe"}) {
            for (const auto& [path, content] : before) put(path, content);
            put(elsewhere_, text);
            fs::remove(file);
            if (kind == "symbolic link") fs::create_symlink(elsewhere_, file);
            if (kind == "pipe") (void)::mkfifo(file.c_str(), 0600);
            ASSERT_TRUE(fs::exists(fs::symlink_status(file)));
            SCOPED_TRACE(kind + " in place of " + file.filename().string());
            resume_at(3);
            expect_begun_anew();
            EXPECT_EQ(contents(elsewhere_), text);
            EXPECT_FALSE(fs::is_symlink(file));
        }
}

// A backup, or a place that somebody has chosen for us to write to: nobody knows. What is stored stays.
TEST_F(KilledTrace, FileOfTwoNamesIsRefusedAndStays) {
    for (const fs::path& file : {data_, index_}) {
        fs::create_hard_link(file, elsewhere_);
        const auto resumed = TraceFiles::resume(trace_, {{"channel0"}, {"other"}}, std::nullopt, {{kStream, 3}});
        ASSERT_FALSE(resumed);
        EXPECT_NE(resumed.error().message.find(file.filename().string() + ": it has other names"), std::string::npos)
            << resumed.error().message;
        fs::remove(elsewhere_);
    }
    resume_at(3);
    expect_all_and_one_more();
}

#ifndef LEAT_ADDRESS_SANITIZER  // where no descriptor is left, UBSan takes all objects for broken
TEST_F(KilledTrace, WhatCannotBeOpenedNowStays) {
    bool has_resumed = false;
    for (rlim_t more = 0; !has_resumed && more < 20; ++more) {
        std::optional<test::FewDescriptorsLeft> few(std::in_place, more);
        auto resumed = TraceFiles::resume(trace_, {{"channel0"}, {"other"}}, std::nullopt, {{kStream, 3}});
        few.reset();
        EXPECT_EQ(contents(data_), data_before_) << more;
        EXPECT_EQ(contents(index_), index_before_) << more;
        has_resumed = resumed && (*resumed)->has_streams();
        EXPECT_TRUE(has_resumed || !resumed) << more << ": it has begun anew";
    }
    EXPECT_TRUE(has_resumed);
}
#endif

TEST_F(KilledTrace, MetadataThatIsAllThereStays) {
    resume_at(3);
    ASSERT_TRUE(files_->restore_metadata("metadata\n"));
    ASSERT_TRUE(files_->write_metadata("more\n"));
    EXPECT_EQ(contents(trace_ / "metadata"), "metadata\nmore\n");
}

TEST_F(KilledTrace, MetadataGetsWhatItLacks) {
    fs::resize_file(trace_ / "metadata", 4);
    resume_at(3);
    ASSERT_TRUE(files_->restore_metadata("metadata\nand more\n"));
    EXPECT_EQ(contents(trace_ / "metadata"), "metadata\nand more\n");
}

TEST_F(KilledTrace, MetadataThatNobodyKnowsIsCutOff) {
    append(trace_ / "metadata", "half a un");
    resume_at(3);
    ASSERT_TRUE(files_->restore_metadata("metadata\n"));
    EXPECT_EQ(contents(trace_ / "metadata"), "metadata\n");
}

TEST_F(KilledTrace, MissingMetadataIsWrittenAgain) {
    fs::remove(trace_ / "metadata");
    resume_at(3);
    ASSERT_TRUE(files_->restore_metadata("metadata\n"));
    EXPECT_EQ(contents(trace_ / "metadata"), "metadata\n");
    expect_all_and_one_more();
}

TEST_F(KilledTrace, LinkInPlaceOfMetadataIsNotFollowed) {
    append(elsewhere_, "precious");
    fs::remove(trace_ / "metadata");
    fs::create_symlink(elsewhere_, trace_ / "metadata");
    resume_at(3);
    ASSERT_TRUE(files_->restore_metadata("metadata\n"));
    EXPECT_EQ(contents(elsewhere_), "precious");
    EXPECT_EQ(contents(trace_ / "metadata"), "metadata\n");
}

TEST_F(KilledTrace, NothingThereAtAllIsMadeAnew) {
    fs::remove_all(scratch_.path() / "ust");
    resume_at(3);
    ASSERT_TRUE(files_->restore_metadata("metadata\n"));
    EXPECT_EQ(contents(trace_ / "metadata"), "metadata\n");
    expect_begun_anew();
}

TEST_F(KilledTrace, MissingIndexDirectoryIsMadeAnew) {
    fs::remove_all(trace_ / "index");
    resume_at(3);
    expect_begun_anew();
}

TEST_F(KilledTrace, LinkInPlaceOfADirectoryIsRefused) {
    fs::remove_all(trace_ / "index");
    fs::create_directory(elsewhere_);
    fs::create_directory_symlink(elsewhere_, trace_ / "index");
    const auto resumed = TraceFiles::resume(trace_, {{"channel0"}}, std::nullopt, {{kStream, 3}});
    ASSERT_FALSE(resumed);
    EXPECT_EQ(resumed.error().kind, ErrorKind::kRefused);
    EXPECT_TRUE(fs::is_empty(elsewhere_));
}

// Others do not wait until its owner has taken it away.
TEST_F(KilledTrace, FileInPlaceOfADirectoryIsRefused) {
    fs::remove_all(trace_ / "index");
    append(trace_ / "index", "mine");
    auto resumed = TraceFiles::resume(trace_, {{"channel0"}}, std::nullopt, {{kStream, 3}});
    ASSERT_FALSE(resumed);
    EXPECT_EQ(resumed.error().kind, ErrorKind::kRefused);
    EXPECT_EQ(resumed.error().message, trace_.string() + ": index is no directory");
    fs::remove_all(trace_);
    append(trace_, "mine");
    resumed = TraceFiles::resume(trace_, {{"channel0"}}, std::nullopt, {{kStream, 3}});
    ASSERT_FALSE(resumed);
    EXPECT_EQ(resumed.error().kind, ErrorKind::kRefused);
}

TEST_F(KilledTrace, CanBeFollowedAgain) {
    resume_at(3);
    EXPECT_TRUE(fs::exists(trace_ / trace::kSyncFileName));
    files_.reset();
    EXPECT_FALSE(fs::exists(trace_ / trace::kSyncFileName)) << "it has ended";
}

TEST_F(KilledTrace, ThatIsResumedTwiceIsStillWhole) {
    resume_at(3);
    expect_all_and_one_more();
    resume_at(3);
    EXPECT_EQ(contents(data_), data_before_);
    expect_all_and_one_more();
}

}  // namespace
}  // namespace leat::output
