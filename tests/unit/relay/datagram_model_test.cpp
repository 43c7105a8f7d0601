// Random histories of senders, a bad network, and somebody who forges: see support/datagram_model.hpp.
#include "support/datagram_model.hpp"

#include <gtest/gtest.h>

#include <random>

namespace leat::relay {
namespace {

using test::DatagramModel;

constexpr std::uint64_t kSeeds = 60;
constexpr int kSteps = 1000;

TEST(DatagramModel, ForgedDatagramsCostNoMoreThanThePacketsWhoseNumbersTheyBear) {
    std::uint64_t delivered = 0;
    std::uint64_t lost = 0;
    std::uint64_t forged = 0;
    std::uint64_t evicted = 0;
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
        std::mt19937_64 random(seed);
        DatagramModel model([&random](std::uint64_t bound) { return random() % bound; });
        for (int i = 0; i < kSteps && model.violation().empty(); ++i) model.step();
        if (model.violation().empty()) model.finish();
        ASSERT_EQ(model.violation(), "") << "seed " << seed;
        delivered += model.delivered();
        lost += model.lost();
        forged += model.forged();
        evicted += model.evicted();
    }
    // The histories are worth their time.
    EXPECT_GT(delivered, kSeeds * kSteps / 20);
    EXPECT_GT(lost, kSeeds);
    EXPECT_GT(forged, delivered);
    EXPECT_GT(evicted, kSeeds);
}

}  // namespace
}  // namespace leat::relay
