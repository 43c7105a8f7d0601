#include "consumer/packet_ledger.hpp"

#include <gtest/gtest.h>

#include <string>

namespace leat::consumer {
namespace {

PacketLedger<std::string> ledger_of(std::uint64_t packets) {
    PacketLedger<std::string> ledger;
    for (std::uint64_t number = 0; number < packets; ++number) ledger.add(number, "p" + std::to_string(number));
    return ledger;
}

TEST(PacketLedger, PacketsAreSentInTheOrderInWhichTheyWereCut) {
    auto ledger = ledger_of(2);
    EXPECT_EQ(ledger.next_unsent(), "p0");
    EXPECT_EQ(ledger.last_sent(), std::nullopt);
    ledger.note_sent();
    EXPECT_EQ(ledger.next_unsent(), "p1");
    EXPECT_EQ(ledger.last_sent(), 0U);
    ledger.note_sent();
    EXPECT_FALSE(ledger.has_unsent());
    ledger.add(2, "p2");
    EXPECT_EQ(ledger.next_unsent(), "p2");
}

TEST(PacketLedger, AnswerCoversWhatWasSentWhenItWasAskedFor) {
    auto ledger = ledger_of(3);
    ledger.note_sent();
    ledger.note_sent();
    ledger.ask();
    ledger.note_sent();
    ledger.note_stored();
    EXPECT_EQ(ledger.stored(), 2U);
    EXPECT_EQ(ledger.stored_count(), 2U);
    ASSERT_EQ(ledger.packets().size(), 1U);
    EXPECT_EQ(ledger.packets().front().entry, "p2");
    EXPECT_TRUE(ledger.has_unconfirmed());
    EXPECT_FALSE(ledger.is_asked());
}

TEST(PacketLedger, PendingPacketsMayBeAskedForAgain) {
    auto ledger = ledger_of(1);
    EXPECT_FALSE(ledger.has_unconfirmed());
    ledger.note_sent();
    EXPECT_EQ(ledger.ask(), 0U);
    EXPECT_TRUE(ledger.is_asked());
    ledger.note_pending();
    EXPECT_FALSE(ledger.is_asked());
    EXPECT_TRUE(ledger.has_unconfirmed());
    EXPECT_EQ(ledger.stored(), 0U);
}

// The newest of a steady flow is always still under way.
TEST(PacketLedger, WhatWasPendingIsAskedForBeforeWhatWasSentSince) {
    auto ledger = ledger_of(3);
    ledger.note_sent();
    ledger.ask();
    ledger.note_sent();
    ledger.note_pending();
    EXPECT_EQ(ledger.ask(), 0U);
    ledger.note_sent();
    ledger.note_stored();
    EXPECT_EQ(ledger.stored(), 1U);
    EXPECT_EQ(ledger.ask(), 2U);
}

TEST(PacketLedger, NewConnectionForgetsWhatWasPending) {
    auto ledger = ledger_of(2);
    ledger.note_sent();
    ledger.note_sent();
    ledger.ask();
    ledger.note_pending();
    ledger.rewind();
    ledger.note_sent();
    EXPECT_EQ(ledger.ask(), 0U);
}

TEST(PacketLedger, AnswerThatNobodyAskedForStoresNothing) {
    auto ledger = ledger_of(1);
    ledger.note_sent();
    ledger.note_stored();
    EXPECT_EQ(ledger.stored(), 0U);
    ledger.ask();
    ledger.note_pending();
    ledger.note_stored();
    EXPECT_EQ(ledger.stored(), 0U);
    EXPECT_FALSE(ledger.empty());
}

TEST(PacketLedger, NewConnectionSendsAgainWhatIsNotStored) {
    auto ledger = ledger_of(3);
    ledger.note_sent();
    ledger.ask();
    ledger.note_stored();
    ledger.note_sent();
    ledger.ask();
    ledger.rewind();
    EXPECT_EQ(ledger.next_unsent(), "p1");
    EXPECT_EQ(ledger.last_sent(), std::nullopt);
    EXPECT_EQ(ledger.stored(), 1U);
    EXPECT_FALSE(ledger.has_unconfirmed());
    EXPECT_FALSE(ledger.is_asked());
}

TEST(PacketLedger, LastForgottenEntrySaysHowFarItIsStored) {
    auto ledger = ledger_of(4);
    EXPECT_EQ(ledger.note_stored(0), std::nullopt);
    EXPECT_EQ(ledger.note_stored(3), "p2");
    EXPECT_EQ(ledger.note_stored(3), std::nullopt);
    EXPECT_EQ(ledger.note_stored(~std::uint64_t{0}), "p3");
    EXPECT_TRUE(ledger.empty());
}

}  // namespace
}  // namespace leat::consumer
