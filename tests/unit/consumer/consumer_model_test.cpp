// Random histories of writers, consumer and output: see support/consumer_model.hpp.
#include "support/consumer_model.hpp"

#include <gtest/gtest.h>

#include "support/model_histories.hpp"

namespace leat::consumer {
namespace {

using test::ConsumerModel;

constexpr auto kSeeds = test::seeds_here(0, 300);
constexpr std::uint64_t kSteps = 300;

template <class Model>
void check_histories() {
    std::uint64_t delivered = 0;
    std::uint64_t lost = 0;
    std::uint64_t late = 0;
    std::uint64_t limited = 0;
    std::uint64_t histories = 0;
    test::run_histories<Model>(kSeeds, kSteps, [&](const ConsumerModel& model) {
        ++histories;
        delivered += model.delivered();
        lost += model.lost();
        late += model.late();
        limited += model.has_reached_limit() ? 1 : 0;
    });
    if (histories < kSeeds.count) return;
    // Enough must have happened in these histories.
    EXPECT_GT(delivered, kSeeds.count * kSteps / 2);
    EXPECT_GT(lost, kSeeds.count);
    EXPECT_GT(late, kSeeds.count);
    EXPECT_GT(limited, kSeeds.count / 16);
}

TEST(ConsumerModel, EveryRecordIsDeliveredOnceOrCounted) { check_histories<ConsumerModel>(); }

TEST(ConsumerModel, WithTinyHeadersToo) { check_histories<test::TinyConsumerModel>(); }

}  // namespace
}  // namespace leat::consumer
