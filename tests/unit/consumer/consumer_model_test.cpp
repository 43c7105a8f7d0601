// Random histories of writers, consumer and output: see support/consumer_model.hpp.
#include "support/consumer_model.hpp"

#include <gtest/gtest.h>

#include <random>

namespace leat::consumer {
namespace {

using test::ConsumerModel;

constexpr std::uint64_t kSeeds = 300;
constexpr int kSteps = 300;

TEST(ConsumerModel, EveryRecordIsDeliveredOnceOrCounted) {
    std::uint64_t delivered = 0;
    std::uint64_t lost = 0;
    std::uint64_t late = 0;
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
        std::mt19937_64 random(seed);
        ConsumerModel model([&random](std::uint64_t bound) { return random() % bound; });
        for (int i = 0; i < kSteps && model.violation().empty(); ++i) model.step();
        if (model.violation().empty()) model.finish();
        ASSERT_EQ(model.violation(), "") << "seed " << seed;
        delivered += model.delivered();
        lost += model.lost();
        late += model.late();
    }
    // The histories are worth their time.
    EXPECT_GT(delivered, kSeeds * kSteps / 2);
    EXPECT_GT(lost, kSeeds);
    EXPECT_GT(late, kSeeds);
}

}  // namespace
}  // namespace leat::consumer
