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

// What becomes of questions, one at each step, about packets that are stored so many steps after they were sent.
struct Line {
    PacketLedger<int> ledger;
    std::deque<std::pair<unsigned, std::uint64_t>> under_way{};  // when they will be stored
    std::optional<std::uint64_t> arrived{};
    unsigned now = 0;

    void send(std::uint64_t number, unsigned stored_at) {
        ledger.add(number, 0);
        ledger.note_sent();
        under_way.emplace_back(stored_at, number);
    }
    void step() {
        ++now;
        for (; !under_way.empty() && under_way.front().first <= now; under_way.pop_front())
            arrived = under_way.front().second;
        if (!ledger.has_unconfirmed()) return;
        const std::uint64_t asked = ledger.ask();
        if (arrived >= asked)  // nothing is less than any packet
            ledger.note_stored();
        else
            ledger.note_pending();
    }
};

// All that was sent takes long, and part of it has arrived.
TEST(PacketLedger, WhatASlowLineHasCarriedMakesRoom) {
    constexpr unsigned kStepsAPacket = 100;
    Line line;
    for (std::uint64_t number = 0; number < 20; ++number)
        line.send(number, kStepsAPacket * (static_cast<unsigned>(number) + 1));
    for (unsigned packet = 0; packet < 20; ++packet) {
        while (line.now < kStepsAPacket * (packet + 1) + 2) line.step();
        EXPECT_EQ(line.ledger.stored(), packet + 1);
    }
}

// Each question frees all that it covers, however long it takes them: not one packet each.
TEST(PacketLedger, WhatALongLineHasCarriedMakesRoom) {
    constexpr unsigned kSteps = 40;
    Line line;
    for (std::uint64_t number = 0; number < 10'000; ++number) {
        line.send(number, line.now + kSteps);
        line.step();
        ASSERT_LE(line.ledger.packets().size(), 2 * kSteps + 4);
    }
}

TEST(PacketLedger, NewConnectionForgetsHowOftenItWasTooEarly) {
    auto ledger = ledger_of(2);
    for (int turn = 0; turn < 100; ++turn) {
        for (int i = 0; i < 2; ++i) ledger.note_sent();
        for (int i = 0; i < 2; ++i) {
            EXPECT_EQ(ledger.ask(), 1U);
            ledger.note_pending();
        }
        ledger.rewind();
    }
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
