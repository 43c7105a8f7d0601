#include "capture/block_output.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <string_view>

#include "support/scratch_directory.hpp"

namespace leat::capture {
namespace {

class BlockOutputTest : public testing::Test {
  protected:
    std::unique_ptr<BlockOutput> make(std::uint64_t max_size = 1 << 20) {
        const std::array<std::uint32_t, 2> cpus{0, 1};
        return *BlockOutput::create(directory_.path() / "trace", "channel0", 2, cpus, max_size);
    }
    static consumer::Packet packet(std::uint32_t ring, std::uint64_t number) {
        static constexpr std::array<std::byte, 100> kRecords{};
        return {.stream = {0, ring}, .header = {.packet_seq_num = number}, .records = kRecords, .events = 5};
    }
    [[nodiscard]] std::uint64_t size_of(std::string_view name) const {
        std::error_code error;
        const auto size = std::filesystem::file_size(directory_.path() / "trace" / name, error);
        return error ? 0 : size;
    }
    // As pwritev() does it.
    static void write(BlockOutput& output, Block& block) {
        int count = 0;
        const auto parts = block.parts(count);
        const auto offset = static_cast<off_t>(block.offset + block.written);
        EXPECT_TRUE(output.written(block.number, ::pwritev(output.fd_of(block), parts.data(), count, offset)));
    }

    test::ScratchDirectory directory_{};
};

constexpr std::uint64_t kSize = ctf::kPacketHeaderSize + 100;

TEST_F(BlockOutputTest, PacketsWaitForTheMetadataBeforeThem) {
    const auto output = make();
    ASSERT_TRUE(output->write_metadata("one"));
    ASSERT_TRUE(output->write_packet(packet(0, 0)));
    Block* const metadata = output->hand_out();
    ASSERT_TRUE(metadata != nullptr && metadata->is_metadata);
    EXPECT_EQ(output->hand_out(), nullptr);
    ASSERT_TRUE(output->written(metadata->number, 1));
    ASSERT_EQ(output->hand_out(), metadata);
    EXPECT_EQ(output->hand_out(), nullptr);
    ASSERT_TRUE(output->written(metadata->number, 2));
    EXPECT_NE(output->hand_out(), nullptr);
}

// People rename it, and another capture takes its name.
TEST_F(BlockOutputTest, FilesStayInTheirDirectoryWhateverItIsCalled) {
    const auto trace = directory_.path() / "trace";
    const auto moved = directory_.path() / "moved";
    const auto output = make();
    std::filesystem::rename(trace, moved);
    const auto other = make();
    ASSERT_TRUE(other->write_packet(packet(0, 0)));
    write(*other, *other->hand_out());
    ASSERT_TRUE(output->write_packet(packet(7, 0))) << "a ring whose first event comes later";
    write(*output, *output->hand_out());
    EXPECT_TRUE(std::filesystem::exists(moved / "channel0_7"));
    output->close();
    other->close();
    EXPECT_EQ(size_of("channel0_0"), kSize);
    EXPECT_EQ(size_of("channel0_7"), 0U);
}

TEST_F(BlockOutputTest, StoredUpToTheFirstPacketThatIsNot) {
    const auto output = make();
    for (std::uint64_t number = 0; number < 3; ++number) ASSERT_TRUE(output->write_packet(packet(0, number)));
    std::array<Block*, 3> blocks{};
    for (Block*& block : blocks) block = output->hand_out();
    write(*output, *blocks[1]);
    write(*output, *blocks[2]);
    EXPECT_EQ(output->stored({0, 0}), 0U);
    write(*output, *blocks[0]);
    EXPECT_EQ(output->stored({0, 0}), 3U);
    EXPECT_TRUE(output->is_delivered());
}

TEST_F(BlockOutputTest, WhatIsWrittenAfterAnErrorCounts) {
    const auto output = make();
    ASSERT_TRUE(output->write_packet(packet(0, 0)));
    ASSERT_TRUE(output->write_packet(packet(1, 0)));
    Block* const first = output->hand_out();
    Block* const second = output->hand_out();
    ASSERT_TRUE(output->written(second->number, -ENOSPC));
    EXPECT_EQ(output->hand_out(), nullptr);
    EXPECT_FALSE(output->is_delivered());
    write(*output, *first);
    ASSERT_TRUE(output->is_delivered());
    output->close();
    EXPECT_EQ(output->events(), 5U);
    EXPECT_EQ(output->lost(), 5U);
    EXPECT_EQ(output->bytes(), kSize);
    EXPECT_EQ(size_of("channel0_0"), kSize);
    EXPECT_EQ(size_of("channel0_1"), 0U);
}

// What it has submitted to an io_uring is cancelled.
TEST_F(BlockOutputTest, WritesOfAThreadThatHasEndedAreTriedAgain) {
    const auto output = make();
    ASSERT_TRUE(output->write_packet(packet(0, 0)));
    const Block* const cancelled = output->hand_out();
    ASSERT_TRUE(output->written(cancelled->number, -ECANCELED));
    Block* const again = output->hand_out();
    ASSERT_EQ(again, cancelled);
    write(*output, *again);
    EXPECT_TRUE(output->is_delivered());
    EXPECT_EQ(output->lost(), 0U);
}

TEST_F(BlockOutputTest, WhatLiesBehindAGapIsLost) {
    const auto output = make();
    for (std::uint64_t number = 0; number < 3; ++number) ASSERT_TRUE(output->write_packet(packet(0, number)));
    std::array<Block*, 3> blocks{};
    for (Block*& block : blocks) block = output->hand_out();
    write(*output, *blocks[2]);
    write(*output, *blocks[0]);
    ASSERT_TRUE(output->written(blocks[1]->number, -EIO));
    output->close();
    EXPECT_EQ(output->events(), 5U);
    EXPECT_EQ(output->lost(), 10U);
    EXPECT_EQ(size_of("channel0_0"), kSize);
}

TEST_F(BlockOutputTest, LastCountAlwaysFits) {
    const auto output = make(kSize + 6 * ctf::kPacketHeaderSize);
    ASSERT_TRUE(output->write_packet(packet(0, 0)));
    EXPECT_FALSE(output->is_full());
    EXPECT_FALSE(output->write_packet(packet(1, 0)));
    EXPECT_TRUE(output->is_full());
    for (std::uint64_t number = 0; number < 2; ++number) {
        consumer::Packet empty = packet(1, number);
        empty.records = {};
        EXPECT_TRUE(output->write_packet(empty));
    }
}

TEST_F(BlockOutputTest, BlocksThatNobodyWillWriteAreHandedOutAgain) {
    const auto output = make();
    ASSERT_TRUE(output->write_packet(packet(0, 0)));
    Block* const block = output->hand_out();
    EXPECT_EQ(output->hand_out(), nullptr);
    output->take_back();
    EXPECT_EQ(output->hand_out(), block);
}

TEST_F(BlockOutputTest, OnlyWhatItMadeIsRemoved) {
    make()->remove_if_unused();
    EXPECT_FALSE(std::filesystem::exists(directory_.path() / "trace"));
    std::filesystem::create_directory(directory_.path() / "trace");
    make()->remove_if_unused();
    EXPECT_TRUE(std::filesystem::is_empty(directory_.path() / "trace"));
}

// Of streams 0 and 1, with two packets and one.
TEST_F(BlockOutputTest, WhatIsRemovedIsLost) {
    const auto lost_without = [this](const char* name, bool has_failed) {
        const auto output = make();
        EXPECT_TRUE(output->write_metadata("one"));
        for (const auto& [ring, number] : {std::pair{0U, 0U}, {0U, 1U}, {1U, 0U}})
            EXPECT_TRUE(output->write_packet(packet(ring, number)));
        while (Block* const block = output->hand_out()) write(*output, *block);
        if (has_failed) {
            EXPECT_TRUE(output->write_packet(packet(1, 1)));
            EXPECT_TRUE(output->written(output->hand_out()->number, -EIO));
        }
        std::filesystem::remove(directory_.path() / "trace" / name);
        output->close();
        EXPECT_TRUE(output->has_removed_files());
        EXPECT_EQ(output->events() + output->lost(), has_failed ? 20U : 15U);
        std::uint64_t bytes = 0;
        if (output->events() != 0)
            for (const char* file : {"metadata", "channel0_0", "channel0_1"}) bytes += size_of(file);
        EXPECT_EQ(output->bytes(), bytes);
        std::filesystem::remove_all(directory_.path() / "trace");
        return output->lost();
    };
    EXPECT_EQ(lost_without("channel0_0", false), 10U);
    EXPECT_EQ(lost_without("channel0_1", false), 5U);
    EXPECT_EQ(lost_without("channel0_1", true), 10U);
    EXPECT_EQ(lost_without("metadata", false), 15U);
}

TEST_F(BlockOutputTest, FilesWithoutAPacketGo) {
    const auto output = make();
    ASSERT_TRUE(output->write_packet(packet(1, 0)));
    write(*output, *output->hand_out());
    output->close();
    EXPECT_FALSE(std::filesystem::exists(directory_.path() / "trace/channel0_0"));
    EXPECT_EQ(size_of("channel0_1"), kSize);
}

}  // namespace
}  // namespace leat::capture
