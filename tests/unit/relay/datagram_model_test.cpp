// Random histories of senders, a bad network and a forger: see support/datagram_model.hpp.
#include "support/datagram_model.hpp"

#include <gtest/gtest.h>

#include "support/model_histories.hpp"

namespace leat::relay {
namespace {

using test::DatagramModel;

constexpr auto kSeeds = test::seeds_here(0, 60);
constexpr std::uint64_t kSteps = 1000;

TEST(DatagramModel, ForgedDatagramsCostNoMoreThanThePacketsWhoseNumbersTheyBear) {
    struct {
        std::uint64_t histories, delivered, lost, forged, evicted;
    } sum{};
    test::run_histories<DatagramModel>(kSeeds, kSteps, [&](const DatagramModel& model) {
        ++sum.histories;
        sum.delivered += model.delivered();
        sum.lost += model.lost();
        sum.forged += model.forged();
        sum.evicted += model.evicted();
    });
    if (sum.histories < kSeeds.count) return;
    // Enough must have happened in these histories.
    EXPECT_GT(sum.delivered, kSeeds.count * kSteps / 20);
    EXPECT_GT(sum.lost, kSeeds.count);
    EXPECT_GT(sum.forged, sum.delivered);
    EXPECT_GT(sum.evicted, kSeeds.count);
}

}  // namespace
}  // namespace leat::relay
