#include "relay/pairing_table.hpp"

#include <gtest/gtest.h>

namespace leat::relay {
namespace {

using namespace std::chrono_literals;

constexpr Time kStart{1000s};

wire::SendIndex index_of(std::uint64_t number) { return {.net_seq_num = number, .packet_size = 800}; }
StoredData data_at(std::uint64_t offset) { return {.file_number = 0, .offset = offset, .size = 100}; }

class PairingTableTest : public testing::Test {
  protected:
    void index(std::uint64_t number) { ASSERT_TRUE(table.add_index(index_of(number), now)); }
    void data(std::uint64_t number) { ASSERT_TRUE(table.add_data(number, data_at(number * 100), now)); }
    // What comes out, as text: numbers, in brackets if lost.
    std::string taken() {
        std::string text;
        while (const auto outcome = table.take(now))
            text += fmt::format(fmt::runtime(outcome->is_lost() ? "({})" : "{} "), outcome->number);
        return text;
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

TEST_F(PairingTableTest, EndOfIndexesLosesWhatWaitsForThem) {
    data(0), index(0), data(1);
    table.end_indexes();
    EXPECT_EQ(taken(), "0 (1)");
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

TEST_F(PairingTableTest, HugeGapIsRefused) {
    data(0), index(0);
    EXPECT_FALSE(table.add_index(index_of(std::uint64_t{1} << 60), now));
    EXPECT_FALSE(table.add_data(~std::uint64_t{0}, data_at(0), now));
    EXPECT_EQ(taken(), "0 ");
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

class DatagramPairingTest : public PairingTableTest {
  protected:
    DatagramPairingTest() { table = PairingTable(PairingTable::Transport::kDatagrams); }
};

TEST_F(DatagramPairingTest, DataMayComeInAnyOrder) {
    index(0), index(1), index(2);
    data(2);
    EXPECT_EQ(taken(), "");
    data(0);
    EXPECT_EQ(taken(), "0 ");
    data(1);
    EXPECT_EQ(taken(), "1 2 ");
}

TEST_F(DatagramPairingTest, FirstNumberMayNotBeTheLowest) {
    data(1);
    data(0);
    index(0), index(1);
    EXPECT_EQ(taken(), "0 1 ");
}

TEST_F(DatagramPairingTest, AgeTellsWhatIsLost) {
    index(0), index(1);
    data(1);
    now += PairingTable::kMaxAgeOfDatagrams + 1ms;
    EXPECT_EQ(taken(), "(0)1 ");
}

}  // namespace
}  // namespace leat::relay
