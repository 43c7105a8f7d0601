#include "relay/ingest/stream_quota.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace leat::relay {
namespace {

class StreamQuotaTest : public testing::Test {
  protected:
    // Takes until there is no more. How many streams that are.
    std::size_t take_all(const std::string& peer, std::uint64_t producer, std::size_t descriptors) {
        std::size_t count = 0;
        for (; auto place = quota.take(peer, producer, descriptors); ++count) places.push_back(std::move(place));
        return count;
    }

    StreamQuota quota{900};
    std::vector<StreamQuota::Place> places;
};

TEST_F(StreamQuotaTest, WhatAPeerMayHaveIsCountedInDescriptors) {
    std::size_t descriptors = 0;
    for (std::uint64_t producer = 0; producer < 100; ++producer)
        descriptors += StreamQuota::kOfMetadata * take_all("peer", producer, StreamQuota::kOfMetadata);
    EXPECT_LE(descriptors, 900U);
    EXPECT_GT(descriptors, 890U);
    EXPECT_NE(quota.take("other", 1000, StreamQuota::kOfMetadata), nullptr);
}

TEST_F(StreamQuotaTest, OneProducerLeavesSomethingToTheOthersOfItsPeer) {
    EXPECT_EQ(take_all("peer", 1, StreamQuota::kOfMetadata), 800 / StreamQuota::kOfMetadata);
    EXPECT_GE(take_all("peer", 2, StreamQuota::kOfMetadata), 25U);
    EXPECT_NE(quota.take("peer", 3, StreamQuota::kOfData), nullptr);
}

TEST_F(StreamQuotaTest, PlaceIsFreeWhenItIsGivenBack) {
    const std::size_t count = take_all("peer", 1, StreamQuota::kOfData);
    EXPECT_EQ(quota.take("peer", 1, StreamQuota::kOfData), nullptr);
    places.pop_back();
    EXPECT_NE(quota.take("peer", 1, StreamQuota::kOfData), nullptr);
    places.clear();
    EXPECT_EQ(take_all("peer", 1, StreamQuota::kOfData), count);
}

}  // namespace
}  // namespace leat::relay
