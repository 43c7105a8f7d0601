// Random histories of writers, output, and consumers that are killed: see support/consumer_restart_model.hpp.
#include "support/consumer_restart_model.hpp"

#include <gtest/gtest.h>

#include "support/model_histories.hpp"

namespace leat::consumer {
namespace {

using test::ConsumerRestartModel;

constexpr auto kSeeds = test::seeds_here(0, 300);
constexpr std::uint64_t kSteps = 300;

template <class Model>
void check_histories() {
    std::uint64_t delivered = 0;
    std::uint64_t lost = 0;
    std::uint64_t kills = 0;
    std::uint64_t taken_again = 0;
    std::uint64_t histories = 0;
    test::run_histories<Model>(kSeeds, kSteps, [&](const ConsumerRestartModel& model) {
        ++histories;
        delivered += model.delivered();
        lost += model.lost();
        kills += model.kills();
        taken_again += model.taken_again();
    });
    if (histories < kSeeds.count) return;
    // Enough must have happened in these histories.
    EXPECT_GT(delivered, kSeeds.count * kSteps / 2);
    EXPECT_GT(lost, kSeeds.count);
    EXPECT_GT(kills, kSeeds.count * kSteps / 50);
    EXPECT_GT(taken_again, kSeeds.count);
}

TEST(ConsumerRestartModel, EveryRecordIsDeliveredOnceOrCountedWhoeverIsKilled) {
    check_histories<ConsumerRestartModel>();
}

TEST(ConsumerRestartModel, WithTinyHeadersToo) { check_histories<test::TinyConsumerRestartModel>(); }

}  // namespace
}  // namespace leat::consumer
