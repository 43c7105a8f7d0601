// Random histories of writers, consumer and output: see support/consumer_model.hpp.
#include "support/consumer_model.hpp"

#include <gtest/gtest.h>

#include "support/model_histories.hpp"

namespace leat::consumer {
namespace {

using test::ConsumerModel;

constexpr std::uint64_t kSeeds = 300;
constexpr std::uint64_t kSteps = 300;

TEST(ConsumerModel, EveryRecordIsDeliveredOnceOrCounted) {
    std::uint64_t delivered = 0;
    std::uint64_t lost = 0;
    std::uint64_t late = 0;
    std::uint64_t histories = 0;
    test::run_histories<ConsumerModel>(kSeeds, kSteps, [&](const ConsumerModel& model) {
        ++histories;
        delivered += model.delivered();
        lost += model.lost();
        late += model.late();
    });
    if (histories < kSeeds) return;
    // Enough must have happened in these histories.
    EXPECT_GT(delivered, kSeeds * kSteps / 2);
    EXPECT_GT(lost, kSeeds);
    EXPECT_GT(late, kSeeds);
}

}  // namespace
}  // namespace leat::consumer
