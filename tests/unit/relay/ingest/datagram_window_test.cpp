#include "relay/ingest/datagram_window.hpp"

#include <gtest/gtest.h>

namespace leat::relay {
namespace {

using namespace std::chrono_literals;
using Fate = DatagramWindow::Fate;

class DatagramWindowTest : public testing::Test {
  protected:
    static constexpr std::size_t kPiece = wire::kDatagramPiece;

    // Adds a piece of a packet. All bytes of a packet have the value of its number.
    Fate add(std::uint64_t number, std::uint32_t offset, std::uint32_t packet_size = 2 * kPiece) {
        const std::size_t size = offset < packet_size ? std::min<std::size_t>(kPiece, packet_size - offset) : 1;
        const wire::Bytes piece(size, static_cast<std::byte>(number));
        return window.add({.net_seq_num = number, .packet_size = packet_size, .offset = offset}, piece, now);
    }
    void add_whole(std::uint64_t number) {
        ASSERT_EQ(add(number, 0), Fate::kKept);
        ASSERT_EQ(add(number, kPiece), Fate::kWhole);
    }
    void index(std::uint64_t number, std::uint64_t size = 2 * kPiece) {
        ASSERT_TRUE(pairs.add_index({.net_seq_num = number, .entry = {.packet_size = 8 * size}}, now));
    }
    // What leaves the window, in the order in which the relay stores it.
    std::string taken() {
        std::string numbers;
        while (const auto packet = window.take(pairs, now)) {
            EXPECT_EQ(packet->bytes, wire::Bytes(2 * kPiece, static_cast<std::byte>(packet->number)));
            EXPECT_TRUE(
                pairs.add_data(packet->number, {.file_number = 0, .offset = 0, .size = packet->bytes.size()}, now));
            while (pairs.take(now)) {
            }
            numbers += fmt::format("{} ", packet->number);
        }
        return numbers;
    }

    DatagramWindow window;
    PairingTable pairs{PairingTable::Transport::kDatagrams};
    Time now{1000s};
};

TEST_F(DatagramWindowTest, PiecesInAnyOrderMakeAPacket) {
    index(0);
    ASSERT_EQ(add(0, kPiece), Fate::kKept);
    EXPECT_EQ(taken(), "");
    ASSERT_EQ(add(0, 0), Fate::kWhole);
    EXPECT_EQ(taken(), "0 ");
    EXPECT_EQ(window.bytes(), 0U);
}

TEST_F(DatagramWindowTest, ShortLastPieceMayComeFirst) {
    const std::vector<std::uint32_t> offsets{2 * kPiece, kPiece, 0};
    wire::Bytes whole;
    for (std::size_t i = 0; i < 2 * kPiece + 7; ++i) whole.push_back(static_cast<std::byte>(i / 3));
    index(0, whole.size());
    for (const std::uint32_t offset : offsets) {
        const auto piece = UntrustedBytes(whole).subspan(offset, std::min(kPiece, whole.size() - offset));
        window.add({.packet_size = static_cast<std::uint32_t>(whole.size()), .offset = offset}, piece, now);
    }
    EXPECT_EQ(window.take(pairs, now)->bytes, whole);
}

TEST_F(DatagramWindowTest, PacketWaitsForItsIndex) {
    add_whole(0);
    EXPECT_EQ(taken(), "");
    index(0);
    EXPECT_EQ(taken(), "0 ");
}

TEST_F(DatagramWindowTest, PacketsLeaveInOrder) {
    index(0), index(1), index(2);
    add_whole(0);
    EXPECT_EQ(taken(), "0 ");
    add_whole(2);
    EXPECT_EQ(taken(), "");
    add_whole(1);
    EXPECT_EQ(taken(), "1 2 ");
}

TEST_F(DatagramWindowTest, RepeatedPieceChangesNothing) {
    index(0);
    ASSERT_EQ(add(0, 0), Fate::kKept);
    ASSERT_EQ(add(0, 0), Fate::kRepeated);
    EXPECT_EQ(taken(), "");
    ASSERT_EQ(add(0, kPiece), Fate::kWhole);
    EXPECT_EQ(taken(), "0 ");
}

TEST_F(DatagramWindowTest, IncompletePacketIsGivenUpInTime) {
    index(0), index(1);
    ASSERT_EQ(add(0, 0), Fate::kKept);
    add_whole(1);
    EXPECT_EQ(taken(), "");
    now += DatagramWindow::kMaxAge + 1ms;
    EXPECT_EQ(taken(), "1 ");
    EXPECT_EQ(add(0, kPiece), Fate::kTooLate);
    EXPECT_EQ(window.bytes(), 0U);
}

TEST_F(DatagramWindowTest, NumberThatHasNoIndexIsNotWaitedFor) {
    index(0), index(3);
    add_whole(0), add_whole(3);
    EXPECT_EQ(taken(), "0 3 ");
}

TEST_F(DatagramWindowTest, FirstNumberIsThatOfTheFirstIndex) {
    add_whole(7), add_whole(5), add_whole(6);
    EXPECT_EQ(taken(), "");
    index(6);
    EXPECT_EQ(taken(), "6 ");
    index(7);
    EXPECT_EQ(taken(), "7 ");
}

TEST_F(DatagramWindowTest, FarNumbersAreNotTaken) {
    index(0);
    EXPECT_EQ(taken(), "");
    for (const std::uint64_t number : {std::uint64_t{60'000}, std::uint64_t{1} << 63, wire::kNoPacket - 1})
        EXPECT_EQ(add(number, 0), Fate::kTooFar) << number;
    EXPECT_EQ(add(DatagramWindow::kAhead + 1, 0), Fate::kTooFar);
    EXPECT_EQ(add(DatagramWindow::kAhead, 0), Fate::kKept);
    add_whole(0);
    EXPECT_EQ(taken(), "0 ");
}

TEST_F(DatagramWindowTest, WholePacketsAheadOfTheIndexesMoveNothing) {
    index(0);
    for (std::uint64_t number = 2; number < DatagramWindow::kAhead; ++number) add_whole(number);
    now += DatagramWindow::kMaxAge + 1ms;
    EXPECT_EQ(taken(), "");
    add_whole(0);
    EXPECT_EQ(taken(), "0 ");
    index(1);
    add_whole(1);
    EXPECT_EQ(taken(), "1 ");
}

TEST_F(DatagramWindowTest, NumbersBeforeTheFirstIndexDoNotShutOutTheFirst) {
    for (std::uint64_t i = 0; i < 2 * DatagramWindow::kAhead; ++i) {
        EXPECT_EQ(add(60'000 * (i + 1), 0), Fate::kKept);
        now += 1us;
    }
    EXPECT_LE(window.packets(), DatagramWindow::kAhead);
    add_whole(5);
    index(5);
    EXPECT_EQ(taken(), "5 ");
    EXPECT_EQ(window.bytes(), 0U);
}

TEST_F(DatagramWindowTest, PacketOfAnotherSizeThanItsIndexIsNotIt) {
    index(0);
    EXPECT_EQ(add(0, 0, 10), Fate::kWhole);
    EXPECT_EQ(taken(), "");
    add_whole(0);
    EXPECT_EQ(taken(), "0 ") << "the real one is whole after all";
}

TEST_F(DatagramWindowTest, AnnouncementsOfLargePacketsCostLittle) {
    index(0);
    EXPECT_EQ(taken(), "");
    for (std::uint64_t number = 1; number <= 8; ++number)
        ASSERT_EQ(add(number, 0, wire::kMaxDatagramPacket), Fate::kKept);
    EXPECT_LE(window.bytes(), 8 * (DatagramWindow::kSmallPacket + DatagramWindow::kOverhead + 2048));
}

TEST_F(DatagramWindowTest, LargestGoesFirst) {
    index(0), index(1);
    ASSERT_EQ(add(0, 0), Fate::kKept);
    for (std::uint32_t offset = 0; offset < 100 * kPiece; offset += kPiece) add(5, offset, wire::kMaxDatagramPacket);
    add_whole(1);
    window.drop_largest();
    EXPECT_EQ(add(5, 0, wire::kMaxDatagramPacket), Fate::kKept) << "it was forgotten";
    window.drop_largest();
    ASSERT_EQ(add(0, kPiece), Fate::kWhole);
    EXPECT_EQ(taken(), "0 1 ");
    window.drop_largest();
    EXPECT_EQ(window.bytes(), 0U);
}

TEST_F(DatagramWindowTest, WhatNoIndexSpeaksOfIsForgotten) {
    index(0), index(2);
    EXPECT_EQ(taken(), "");
    add(1, 0), add(3, 0), add(2, 0);
    window.clean(pairs, now);
    EXPECT_EQ(window.packets(), 2U) << "1 has no index, 3 may get one";
    now += DatagramWindow::kMaxAgeWithoutIndex + 1ms;
    window.clean(pairs, now);
    EXPECT_EQ(window.packets(), 1U);
    EXPECT_EQ(window.dropped_packets(), 2U);
}

TEST_F(DatagramWindowTest, NumbersNearTheEnd) {
    constexpr std::uint64_t kLast = wire::kNoPacket;
    index(kLast - 2), index(kLast - 1);
    add_whole(kLast - 2), add_whole(kLast - 1);
    EXPECT_EQ(taken(), fmt::format("{} {} ", kLast - 2, kLast - 1));
    EXPECT_EQ(add(kLast, 0), Fate::kMalformed) << "it is no packet's number";
    EXPECT_EQ(add(0, 0), Fate::kTooLate);
}

TEST_F(DatagramWindowTest, RubbishIsRefused) {
    EXPECT_EQ(add(0, 1), Fate::kMalformed) << "not at a piece's border";
    EXPECT_EQ(add(0, 2 * kPiece), Fate::kMalformed) << "behind the packet";
    EXPECT_EQ(add(0, 0, 0), Fate::kMalformed);
    EXPECT_EQ(add(0, 0, wire::kMaxDatagramPacket + 1), Fate::kMalformed);
    const wire::Bytes piece(kPiece);
    EXPECT_EQ(window.add({.packet_size = 2 * kPiece}, UntrustedBytes(piece).first(9), now), Fate::kMalformed)
        << "short";
    EXPECT_EQ(window.add({.packet_size = 2 * kPiece, .key = 1}, piece, now), Fate::kMalformed) << "there are no keys";
    EXPECT_EQ(window.bytes(), 0U);
    ASSERT_EQ(add(0, 0), Fate::kKept);
    EXPECT_EQ(add(0, 0, 3 * kPiece), Fate::kMalformed) << "another size than before";
}

}  // namespace
}  // namespace leat::relay
