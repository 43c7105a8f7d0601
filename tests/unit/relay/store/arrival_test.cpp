#include "relay/store/arrival.hpp"

#include <gtest/gtest.h>

#include "support/scratch_directory.hpp"

namespace leat::relay {
namespace {

class ArrivalTest : public testing::Test {
  protected:
    ArrivalTest() {
        const auto directory =
            std::make_shared<SessionDirectory>(*ConfinedDirectory::open_root(scratch.path().string()), "session");
        files.emplace(FileNaming{.trace_id = 1, .path = "ust", .channel_name = "ch"}, directory,
                      *directory->create_chunk({.chunk_id = 0}), 0);
    }

    void begin(std::uint64_t number, std::uint32_t size, std::uint32_t padding = 0) {
        ASSERT_TRUE(arrival.begin({.net_seq_num = number, .data_size = size, .padding_size = padding}, *files));
    }
    // The packet, if that was its end.
    std::optional<Arrival::Complete> write(std::uint64_t count) {
        (void)arrival.begin_write(*files);
        return *arrival.end_write(count, *files);
    }

    test::ScratchDirectory scratch;
    std::optional<FileSequence> files;
    Arrival arrival;
};

TEST_F(ArrivalTest, PacketComesInPieces) {
    begin(7, 10);
    EXPECT_FALSE(write(4));
    const Arrival::Target rest = arrival.begin_write(*files);
    EXPECT_TRUE(arrival.is_being_written());
    EXPECT_EQ(rest.offset, 4U);
    EXPECT_EQ(rest.missing, 6U);
    const auto packet = *arrival.end_write(6, *files);
    ASSERT_TRUE(packet);
    EXPECT_EQ(packet->number, 7U);
    EXPECT_EQ(packet->data.size, 10U);
    EXPECT_FALSE(arrival.is_under_way());
}

TEST_F(ArrivalTest, PaddingIsPartOfThePacket) {
    begin(0, 4, 12);
    const auto first = write(4);
    ASSERT_TRUE(first);
    EXPECT_EQ(first->data.size, 16U);
    begin(1, 4);
    EXPECT_EQ(arrival.begin_write(*files).offset, 16U);
}

TEST_F(ArrivalTest, DroppedPacketLeavesNoBytes) {
    begin(0, 4);
    ASSERT_TRUE(write(4));
    begin(1, 10);
    EXPECT_FALSE(write(5));
    arrival.drop(*files);
    EXPECT_FALSE(arrival.is_under_way());
    begin(2, 4);
    EXPECT_EQ(arrival.begin_write(*files).offset, 4U);
}

TEST_F(ArrivalTest, PacketThatWasMovedGoesOnWhereItIs) {
    begin(0, 10);
    EXPECT_FALSE(write(4));
    arrival.place().offset = 100;
    EXPECT_EQ(arrival.begin_write(*files).offset, 104U);
}

}  // namespace
}  // namespace leat::relay
