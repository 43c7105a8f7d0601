#include "relay/store/pairing_table.hpp"

#include <gtest/gtest.h>

namespace leat::relay {
namespace {

using namespace std::chrono_literals;

constexpr Time kStart{1000s};

wire::SendIndex index_of(std::uint64_t number) { return {.net_seq_num = number, .entry = {.packet_size = 800}}; }
StoredData data_at(std::uint64_t offset) { return {.file_number = 0, .offset = offset, .size = 100}; }

class PairingTableTest : public testing::Test {
  protected:
    void index(std::uint64_t number) { ASSERT_TRUE(table.add_index(index_of(number), now)); }
    void data(std::uint64_t number) { ASSERT_TRUE(table.add_data(number, data_at(number * 100), now)); }
    // The numbers of the packets that come out; lost ones in brackets.
    std::string taken() {
        std::string text;
        while (const auto outcome = table.take(now))
            text += fmt::format(fmt::runtime(outcome->is_lost() ? "({})" : "{} "), outcome->number);
        return text;
    }

    struct Counts {
        std::uint64_t lost = 0;
        std::uint64_t whole = 0;
        bool operator==(const Counts&) const = default;
    };
    // Counts all that comes out, and checks the order.
    Counts count() {
        Counts counts;
        std::optional<std::uint64_t> last;
        while (const auto outcome = table.take(now)) {
            EXPECT_TRUE(!last || outcome->number > *last);
            last = outcome->number;
            ++(outcome->is_lost() ? counts.lost : counts.whole);
        }
        return counts;
    }

    PairingTable table{PairingTable::Transport::kStream};
    Time now = kStart;
};

TEST_F(PairingTableTest, IndexBeforeDataWaits) {
    index(0);
    EXPECT_EQ(taken(), "");
    EXPECT_TRUE(table.waits_for_data());
    data(0);
    EXPECT_EQ(taken(), "0 ");
    EXPECT_TRUE(table.empty());
}

TEST_F(PairingTableTest, DataBeforeIndexWaits) {
    data(0);
    EXPECT_EQ(taken(), "");
    EXPECT_FALSE(table.waits_for_data());
    index(0);
    EXPECT_EQ(taken(), "0 ");
}

TEST_F(PairingTableTest, NumbersMayStartAnywhere) {
    data(7);
    index(7);
    EXPECT_EQ(taken(), "7 ");
}

TEST_F(PairingTableTest, GapInSequenceBecomesLostPackets) {
    data(0), index(0);
    EXPECT_EQ(taken(), "0 ");
    data(3), index(3);
    EXPECT_EQ(taken(), "(1)(2)3 ");
}

TEST_F(PairingTableTest, LaterDataShowsThatEarlierDataIsLost) {
    index(0), index(1);
    data(1);
    EXPECT_EQ(taken(), "(0)1 ");
}

TEST_F(PairingTableTest, LaterIndexShowsThatEarlierIndexIsLost) {
    data(0), data(1);
    index(1);
    EXPECT_EQ(taken(), "(0)1 ");
}

TEST_F(PairingTableTest, LostPacketKeepsTheIndexThatItHas) {
    index(0), index(1), data(1);
    const auto lost = table.take(now);
    ASSERT_TRUE(lost && lost->is_lost());
    EXPECT_EQ(lost->index->packet_size, 800U);
}

TEST_F(PairingTableTest, EndOfDataLosesWhatWaitsForIt) {
    data(0), index(0), index(1), index(2);
    table.end_data();
    EXPECT_EQ(taken(), "0 (1)(2)");
}

// The producer was killed after it sent the packet, and before it sent the index.
TEST_F(PairingTableTest, DataAfterTheLastIndexIsNoLostPacket) {
    data(0), index(0), data(1), data(2);
    table.end_indexes();
    EXPECT_EQ(taken(), "0 ");
    data(3);
    EXPECT_EQ(taken(), "");
    EXPECT_EQ(table.unindexed(), 3U);
    EXPECT_TRUE(table.empty());
    EXPECT_TRUE(table.has_room_for_data(4));
}

TEST_F(PairingTableTest, DataOfAStreamWithoutAnyIndexIsNoLostPacket) {
    data(7);
    table.end_indexes();
    EXPECT_EQ(taken(), "");
    EXPECT_EQ(table.unindexed(), 1U);
}

TEST_F(PairingTableTest, EndOfIndexesLosesNumbersBeforeTheLastIndex) {
    data(0), index(0), data(2), index(2), data(3);
    EXPECT_EQ(taken(), "0 (1)2 ");
    data(4), index(5);
    table.end_indexes(), table.end_data();
    EXPECT_EQ(taken(), "(3)(4)(5)");
}

TEST_F(PairingTableTest, SlowConnectionIsNoLoss) {
    index(0);
    now += 300s;
    EXPECT_EQ(taken(), "");
    data(0);
    EXPECT_EQ(taken(), "0 ");
}

TEST_F(PairingTableTest, ExpiryBoundsMemoryOfSilentStream) {
    index(0);
    now += PairingTable::kMaxAge + 1s;
    EXPECT_EQ(taken(), "(0)");
    EXPECT_TRUE(table.empty());
}

// Its data lies in the socket, because the disk is full.
TEST_F(PairingTableTest, NothingAgesWhileNothingCanCome) {
    index(0);
    for (int i = 0; i < 3; ++i) {
        now += PairingTable::kMaxAge;
        table.count_ages_from(now);
    }
    now += PairingTable::kMaxAge;
    EXPECT_EQ(taken(), "");
    data(0);
    EXPECT_EQ(taken(), "0 ");
    index(1);
    now += PairingTable::kMaxAge + 1s;
    EXPECT_EQ(taken(), "(1)");
}

TEST_F(PairingTableTest, CountBoundsMemoryOfStreamWithoutData) {
    for (std::uint64_t number = 0; number < PairingTable::kMaxWaiting; ++number) index(number);
    EXPECT_FALSE(table.add_index(index_of(PairingTable::kMaxWaiting), now));
}

TEST_F(PairingTableTest, DuplicateIndexIsRefusedAndNamed) {
    index(5);
    const auto again = table.add_index(index_of(5), now);
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().message, "packet 5 has two indexes");
}

TEST_F(PairingTableTest, DuplicateDataIsRefusedAndNamed) {
    data(5);
    const auto again = table.add_data(5, data_at(0), now);
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().message, "packet 5 comes twice");
}

TEST_F(PairingTableTest, PacketThatHasBeenTakenIsRefused) {
    data(0), index(0);
    EXPECT_EQ(taken(), "0 ");
    EXPECT_FALSE(table.add_data(0, data_at(0), now));
    EXPECT_FALSE(table.add_index(index_of(0), now));
}

TEST_F(PairingTableTest, LargeGapBecomesLostPackets) {
    data(0), index(0);
    EXPECT_EQ(taken(), "0 ");
    index(4097 + 100);
    data(4097 + 100);
    EXPECT_EQ(count(), (Counts{.lost = 4096, .whole = 1}));
    EXPECT_EQ(table.unlisted(), 100U);
    index(4198), data(4198);
    EXPECT_EQ(taken(), "4198 ") << "the stream goes on from there";
}

TEST_F(PairingTableTest, GapsAreListedAsFarAsPacketsPayForThem) {
    index(0), data(0);
    EXPECT_EQ(count().lost, 0);
    index(10'000), data(10'000);
    EXPECT_EQ(count().lost, PairingTable::kMaxListed);
    for (std::uint64_t number = 20'000; number <= 40'000; number += 10'000) {
        index(number), data(number);
        EXPECT_EQ(count().lost, PairingTable::kListedPerPacket);
    }
    EXPECT_EQ(table.unlisted(), 4 * 9'999 - PairingTable::kMaxListed - 3 * PairingTable::kListedPerPacket);
    for (std::uint64_t number = 40'001; number < 40'001 + PairingTable::kMaxListed; ++number)
        index(number), data(number);
    count();
    index(100'000), data(100'000);
    EXPECT_EQ(count().lost, PairingTable::kMaxListed) << "packets that came have paid for a large gap";
}

TEST_F(PairingTableTest, HugeGapCostsNoMoreThanALargeOne) {
    data(0), index(0);
    EXPECT_EQ(taken(), "0 ");
    constexpr std::uint64_t kFar = std::uint64_t{1} << 40;
    data(kFar);
    EXPECT_EQ(taken(), "") << "indexes of the gap may still come";
    index(kFar);
    EXPECT_EQ(count(), (Counts{.lost = PairingTable::kMaxListed, .whole = 1}));
    EXPECT_EQ(table.unlisted(), kFar - 1 - PairingTable::kMaxListed);
    EXPECT_TRUE(table.is_past(kFar));
    EXPECT_FALSE(table.is_past(kFar + 1));
}

TEST_F(PairingTableTest, HugeGapBeforeThePacketThatIsLostItself) {
    index(0), index(std::uint64_t{1} << 40);
    table.end_data();
    EXPECT_EQ(count(), (Counts{.lost = 2 + PairingTable::kMaxListed, .whole = 0}));
    EXPECT_TRUE(table.empty());
}

TEST_F(PairingTableTest, IndexOfLostDataMayComeLate) {
    data(0), index(0), data(2);
    EXPECT_EQ(taken(), "0 ");
    index(1);
    const auto lost = table.take(now);
    ASSERT_TRUE(lost && lost->is_lost() && lost->index) << "its index must not come too late";
    index(2);
    EXPECT_EQ(taken(), "2 ");
}

TEST_F(PairingTableTest, NumbersEndBeforeTheLast) {
    constexpr std::uint64_t kLast = ~std::uint64_t{0};
    index(kLast - 2), data(kLast - 2), index(kLast - 1), data(kLast - 1);
    EXPECT_EQ(taken(), fmt::format("{} {} ", kLast - 2, kLast - 1));
    EXPECT_FALSE(table.add_index(index_of(kLast), now)) << "it is no packet's";
    EXPECT_FALSE(table.add_data(kLast, data_at(0), now));
    EXPECT_FALSE(table.add_index(index_of(0), now)) << "numbers do not begin anew";
    EXPECT_FALSE(table.add_data(0, data_at(0), now));
    EXPECT_EQ(taken(), "");
    EXPECT_TRUE(table.is_past(0));
}

TEST_F(PairingTableTest, FullTableStillTakesWhatMakesRoom) {
    for (std::uint64_t number = 0; number < PairingTable::kMaxWaiting; ++number) {
        ASSERT_TRUE(table.has_room_for_index(number));
        index(number);
    }
    EXPECT_FALSE(table.has_room_for_index(PairingTable::kMaxWaiting));
    EXPECT_TRUE(table.has_room_for_data(0));
    data(0);
    EXPECT_EQ(taken(), "0 ");
    EXPECT_TRUE(table.has_room_for_index(PairingTable::kMaxWaiting));
    EXPECT_TRUE(table.has_room_for_data(PairingTable::kMaxWaiting + 1)) << "it would show that all others are lost";
}

TEST_F(PairingTableTest, FullTableOfDataStillTakesWhatMakesRoom) {
    for (std::uint64_t number = 0; number < PairingTable::kMaxWaiting; ++number) data(number);
    EXPECT_FALSE(table.has_room_for_data(PairingTable::kMaxWaiting));
    EXPECT_TRUE(table.has_room_for_index(0));
    EXPECT_TRUE(table.has_room_for_index(PairingTable::kMaxWaiting)) << "it would show that all others are lost";
    index(PairingTable::kMaxWaiting);
    EXPECT_EQ(count(), (Counts{.lost = PairingTable::kMaxWaiting, .whole = 0}));
    EXPECT_TRUE(table.has_room_for_data(PairingTable::kMaxWaiting));
}

TEST_F(PairingTableTest, PastComparesAcrossTheBeginning) {
    EXPECT_TRUE(table.is_past(wire::kNoPacket));
    EXPECT_FALSE(table.is_past(0));
    data(0), index(0), index(1);
    EXPECT_EQ(taken(), "0 ");
    EXPECT_TRUE(table.is_past(wire::kNoPacket));
    EXPECT_TRUE(table.is_past(0));
    EXPECT_FALSE(table.is_past(1));
}

TEST_F(PairingTableTest, GivenUpDataIsLost) {
    index(0), index(1);
    now += 1s;
    index(2);
    EXPECT_TRUE(table.give_up_data(now));
    EXPECT_EQ(taken(), "(0)(1)");
    EXPECT_FALSE(table.give_up_data(now)) << "the last one is new";
    data(2);
    EXPECT_EQ(taken(), "2 ");
}

// What a full table costs must not grow with what it holds.
TEST_F(PairingTableTest, OldestIndexMakesRoomWhereNoDataComes) {
    constexpr std::uint64_t kFull = PairingTable::kMaxWaiting;
    for (std::uint64_t number = 0; number < kFull; ++number) index(number);
    for (std::uint64_t number = kFull; number < 10'000; ++number) {
        table.give_up_oldest_data();
        const auto oldest = table.take(now);
        ASSERT_TRUE(oldest && oldest->is_lost() && oldest->number == number - kFull);
        ASSERT_FALSE(table.take(now)) << "the others may still get their data";
        ASSERT_TRUE(table.has_room_for_index(number));
        index(number);
    }
    data(10'000 - kFull);
    EXPECT_EQ(taken(), fmt::format("{} ", 10'000 - kFull));
}

TEST_F(PairingTableTest, ExpectedAreIndexesWithoutData) {
    index(4), index(5), index(7);
    EXPECT_EQ(table.expected(5)->size, 100U);
    EXPECT_FALSE(table.expected(6));
    EXPECT_EQ(table.last_expected_before(7)->number, 5U);
    EXPECT_FALSE(table.last_expected_before(4));
    data(5);
    EXPECT_FALSE(table.expected(5));
    EXPECT_EQ(table.last_expected_before(7)->number, 4U);
}

TEST_F(PairingTableTest, NextIndexCallsOnce) {
    int calls = 0;
    table.call_at_next_index([&] { ++calls; });
    data(0);
    EXPECT_EQ(calls, 0);
    index(0), index(1);
    EXPECT_EQ(calls, 1);
}

TEST(DatagramPairingTest, AgeDecidesSooner) {
    PairingTable table(PairingTable::Transport::kDatagrams);
    ASSERT_TRUE(table.add_index(index_of(0), kStart));
    EXPECT_TRUE(table.take(kStart + PairingTable::kMaxAgeOfDatagrams + 1ms));
}

}  // namespace
}  // namespace leat::relay
