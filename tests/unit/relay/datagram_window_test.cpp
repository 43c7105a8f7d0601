#include "relay/datagram_window.hpp"

#include <gtest/gtest.h>

namespace leat::relay {
namespace {

using namespace std::chrono_literals;

class DatagramWindowTest : public testing::Test {
  protected:
    static constexpr std::size_t kPiece = wire::kDatagramPiece;

    // A piece of a packet whose bytes all have the value of its number.
    Result<void> add(std::uint64_t number, std::uint32_t offset, std::uint32_t packet_size = 2 * kPiece) {
        const std::size_t size = offset < packet_size ? std::min<std::size_t>(kPiece, packet_size - offset) : 1;
        const wire::Bytes piece(size, static_cast<std::byte>(number));
        return window.add({.net_seq_num = number, .packet_size = packet_size, .offset = offset}, piece, now);
    }
    void add_whole(std::uint64_t number) { ASSERT_TRUE(add(number, 0) && add(number, kPiece)); }
    std::string taken() {
        std::string numbers;
        while (const auto packet = window.take(now)) {
            EXPECT_EQ(packet->bytes, wire::Bytes(2 * kPiece, static_cast<std::byte>(packet->number)));
            numbers += fmt::format("{} ", packet->number);
        }
        return numbers;
    }

    DatagramWindow window;
    Time now{1000s};
};

TEST_F(DatagramWindowTest, PiecesInAnyOrderMakeAPacket) {
    ASSERT_TRUE(add(0, kPiece));
    EXPECT_EQ(taken(), "");
    ASSERT_TRUE(add(0, 0));
    EXPECT_EQ(taken(), "0 ");
    EXPECT_EQ(window.bytes(), 0U);
}

TEST_F(DatagramWindowTest, PacketsLeaveInOrder) {
    add_whole(0);
    EXPECT_EQ(taken(), "0 ");
    add_whole(2);
    EXPECT_EQ(taken(), "");
    add_whole(1);
    EXPECT_EQ(taken(), "1 2 ");
}

TEST_F(DatagramWindowTest, RepeatedPieceChangesNothing) {
    ASSERT_TRUE(add(0, 0));
    ASSERT_TRUE(add(0, 0));
    EXPECT_EQ(taken(), "");
    ASSERT_TRUE(add(0, kPiece));
    EXPECT_EQ(taken(), "0 ");
}

TEST_F(DatagramWindowTest, IncompletePacketIsGivenUpInTime) {
    ASSERT_TRUE(add(0, 0));
    add_whole(1);
    EXPECT_EQ(taken(), "");
    now += DatagramWindow::kMaxAge + 1ms;
    EXPECT_EQ(taken(), "1 ");
    add_whole(0);
    EXPECT_EQ(taken(), "") << "too late";
}

TEST_F(DatagramWindowTest, MissingPacketIsGivenUpInTime) {
    add_whole(0);
    EXPECT_EQ(taken(), "0 ");
    add_whole(3);
    now += DatagramWindow::kMaxAge + 1ms;
    EXPECT_EQ(taken(), "3 ");
}

TEST_F(DatagramWindowTest, MemoryIsBounded) {
    constexpr std::uint32_t kLarge = wire::kMaxDatagramPacket;
    for (std::uint64_t number = 1; number < 100; ++number) {
        ASSERT_TRUE(add(number, 0, kLarge));
        EXPECT_FALSE(window.take(now));
        EXPECT_LE(window.bytes(), DatagramWindow::kMaxBytes + kLarge);
    }
}

TEST_F(DatagramWindowTest, SmallPacketsThatWaitAreBoundedToo) {
    // The first one never comes.
    std::uint64_t taken = 0;
    constexpr std::uint64_t kMore = 10;
    for (std::uint64_t number = 1; number <= DatagramWindow::kMaxPackets + kMore; ++number) {
        ASSERT_TRUE(add(number, 0, 1));
        while (window.take(now)) ++taken;
        EXPECT_LE(window.bytes(), DatagramWindow::kMaxPackets);
    }
    EXPECT_GE(taken, kMore);
}

TEST_F(DatagramWindowTest, NumbersDoNotBeginAnew) {
    constexpr std::uint64_t kLast = ~std::uint64_t{0};
    EXPECT_FALSE(add(kLast, 0)) << "nothing could follow";
    add_whole(kLast - 1);
    now += DatagramWindow::kMaxAge + 1ms;
    EXPECT_EQ(taken(), fmt::format("{} ", kLast - 1));
    add_whole(0);
    now += DatagramWindow::kMaxAge + 1ms;
    EXPECT_EQ(taken(), "");
}

TEST_F(DatagramWindowTest, RubbishIsRefused) {
    EXPECT_FALSE(add(0, 1)) << "not at a piece's border";
    EXPECT_FALSE(add(0, 2 * kPiece)) << "behind the packet";
    EXPECT_FALSE(add(0, 0, 0));
    EXPECT_FALSE(add(0, 0, wire::kMaxDatagramPacket + 1));
    EXPECT_FALSE(window.add({.packet_size = 2 * kPiece, .offset = 0}, wire::Bytes(kPiece - 1), now)) << "short";
    ASSERT_TRUE(add(0, 0));
    EXPECT_FALSE(add(0, 0, 3 * kPiece)) << "another size than before";
}

}  // namespace
}  // namespace leat::relay
