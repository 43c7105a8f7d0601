// Random histories of a control socket and its clients: see support/control_model.hpp.
#include "support/control_model.hpp"

#include <gtest/gtest.h>

#include "support/model_histories.hpp"

namespace leat::sessiond {
namespace {

using test::ControlModel;

constexpr auto kSeeds = test::seeds_here(0, 100);
constexpr std::uint64_t kSteps = 400;

TEST(ControlModel, EachRequestIsDoneOnceAndAnsweredInItsTurn) {
    struct {
        std::uint64_t histories, answers, tellings, left_meanwhile, unread, displaced;
    } sum{};
    test::run_histories<ControlModel>(kSeeds, kSteps, [&](const ControlModel& model) {
        ++sum.histories;
        sum.answers += model.answers();
        sum.tellings += model.tellings();
        sum.left_meanwhile += model.left_meanwhile();
        sum.unread += model.unread();
        sum.displaced += model.displaced();
    });
    if (sum.histories < kSeeds.count) return;
    EXPECT_GT(sum.answers, kSeeds.count * 10);
    EXPECT_GT(sum.tellings, kSeeds.count);
    EXPECT_GT(sum.left_meanwhile, kSeeds.count / 5);
    EXPECT_GT(sum.unread, kSeeds.count);
    EXPECT_GT(sum.displaced, kSeeds.count / 4);
}

}  // namespace
}  // namespace leat::sessiond
