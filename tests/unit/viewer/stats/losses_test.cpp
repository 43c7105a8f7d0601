#include "viewer/stats/losses.hpp"

#include <gtest/gtest.h>

namespace leat::viewer {
namespace {

Message loss(Message::Kind kind, std::optional<std::uint64_t> count) {
    return {.kind = kind, .loss = {.count = count}};
}

TEST(Losses, AreAddedUp) {
    Losses losses;
    losses.add(loss(Message::Kind::kDiscardedEvents, 3));
    losses.add(loss(Message::Kind::kDiscardedEvents, 4));
    losses.add(loss(Message::Kind::kDiscardedPackets, 5));
    losses.add(loss(Message::Kind::kDiscardedEvents, std::nullopt));
    EXPECT_EQ(losses.events, 7U);
    EXPECT_EQ(losses.packets, 5U);
    EXPECT_EQ(losses.unknown, 1U);
}

// Of 8 bits, say.
TEST(Losses, OfACounterThatHasWrappedAreNotKnown) {
    Losses losses;
    losses.add(loss(Message::Kind::kDiscardedEvents, std::uint64_t{3} - 254));
    losses.add(loss(Message::Kind::kDiscardedPackets, std::uint64_t{0} - 256));
    losses.add(loss(Message::Kind::kDiscardedEvents, 9));
    EXPECT_EQ(losses.events, 9U);
    EXPECT_EQ(losses.packets, 0U);
    EXPECT_EQ(losses.unknown, 2U);
}

}  // namespace
}  // namespace leat::viewer
