#include "sessiond/ring_memory.hpp"

#include <gtest/gtest.h>

namespace leat::sessiond {
namespace {

constexpr uid_t kMallory = 1001;
constexpr uid_t kAda = 1002;

TEST(RingMemory, UserGetsHalfAtMostWhereThereAreOthers) {
    RingMemory memory(100, true);
    const auto first = memory.claim(kMallory, 50);
    ASSERT_TRUE(first);
    EXPECT_FALSE(memory.claim(kMallory, 1));
    EXPECT_TRUE(memory.claim(kAda, 50));
}

TEST(RingMemory, OnlyUserGetsAll) {
    RingMemory memory(100, false);
    const auto first = memory.claim(kAda, 60);
    const auto second = memory.claim(kAda, 40);
    EXPECT_TRUE(second);
    EXPECT_FALSE(memory.claim(kAda, 1));
}

TEST(RingMemory, WhatIsGivenBackCanBeClaimed) {
    RingMemory memory(100, false);
    auto first = memory.claim(kAda, 100);
    ASSERT_FALSE(memory.claim(kAda, 1));
    first->reset();
    EXPECT_TRUE(memory.claim(kAda, 100));
}

TEST(RingMemory, WhatAnotherDaemonHasGivenCounts) {
    RingMemory memory(100, false);
    const auto adopted = memory.claim_anyway(kAda, 200);
    EXPECT_FALSE(memory.claim(kAda, 1));
}

}  // namespace
}  // namespace leat::sessiond
