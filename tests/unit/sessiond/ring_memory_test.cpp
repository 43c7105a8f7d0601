#include "sessiond/ring_memory.hpp"

#include <gtest/gtest.h>

#include <optional>

namespace leat::sessiond {
namespace {

constexpr uid_t kMallory = 1001;
constexpr uid_t kAda = 1002;

TEST(RingMemory, UserGetsHalfAtMostWhereThereAreOthers) {
    RingMemory memory({.bytes = 100}, true);
    const auto first = memory.claim(kMallory, 50, 1);
    ASSERT_TRUE(first);
    EXPECT_FALSE(memory.claim(kMallory, 1, 1));
    EXPECT_TRUE(memory.claim(kAda, 50, 1));
}

TEST(RingMemory, OnlyUserGetsAll) {
    RingMemory memory({.bytes = 100}, false);
    const auto first = memory.claim(kAda, 60, 1);
    const auto second = memory.claim(kAda, 40, 1);
    EXPECT_TRUE(second);
    EXPECT_FALSE(memory.claim(kAda, 1, 1));
}

TEST(RingMemory, WhatIsGivenBackCanBeClaimed) {
    RingMemory memory({.bytes = 100}, false);
    auto first = memory.claim(kAda, 100, 1);
    ASSERT_FALSE(memory.claim(kAda, 1, 1));
    *first = {};
    EXPECT_TRUE(memory.claim(kAda, 100, 1));
}

TEST(RingMemory, WhatAnotherDaemonHasGivenCounts) {
    RingMemory memory({.bytes = 100}, false);
    const auto adopted = memory.claim_anyway(kAda, 200, 1);
    EXPECT_FALSE(memory.claim(kAda, 1, 1));
}

TEST(RingMemory, UserGetsHalfOfTheMappings) {
    RingMemory memory({.rings = 20}, true);
    auto first = memory.claim(kMallory, 1, 4);
    ASSERT_TRUE(first && first->maps);
    EXPECT_FALSE(memory.claim(kMallory, 1, 7));
    const auto second = memory.claim(kMallory, 1, 6);
    ASSERT_TRUE(second);
    EXPECT_EQ(second->maps, first->maps);
    EXPECT_FALSE(first->maps->take(1)) << "nor have rings of threads any";
    EXPECT_TRUE(memory.claim(kAda, 1, 10));
    *first = {};
    EXPECT_TRUE(second->maps->take(4));
    EXPECT_FALSE(memory.claim(kMallory, 1, 1));
}

TEST(RingMemory, WhoIsRefusedIsForgotten) {
    RingMemory memory({.bytes = 100, .rings = 20}, true);
    EXPECT_FALSE(memory.claim(kMallory, 51, 1));
    EXPECT_FALSE(memory.claim(kMallory, 1, 11));
    EXPECT_EQ(memory.users(), 0U);
    std::optional claim(*memory.claim(kAda, 1, 10));
    EXPECT_FALSE(memory.claim(kAda, 1, 1));
    EXPECT_EQ(memory.users(), 1U);
    claim.reset();
    EXPECT_EQ(memory.users(), 0U);
}

TEST(RingMemory, MappingsOfADaemonBeforeCount) {
    RingMemory memory({.rings = 20}, true);
    auto adopted = memory.claim_anyway(kAda, 1, 15);
    EXPECT_FALSE(memory.claim(kAda, 1, 1));
    adopted = {};
    EXPECT_TRUE(memory.claim(kAda, 1, 10));
}

TEST(RingMemory, OnlyUserHasAllMappings) {
    RingMemory memory({.rings = 20}, false);
    const auto claim = memory.claim(kAda, 1, 100);
    ASSERT_TRUE(claim);
    EXPECT_EQ(claim->maps, nullptr);
}

TEST(RingMemory, KernelSaysHowManyCanBeMapped) { EXPECT_GT(RingMemory::rings_to_map(), 0); }

}  // namespace
}  // namespace leat::sessiond
