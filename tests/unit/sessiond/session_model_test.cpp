// Random histories of the session daemon: see support/session_model.hpp.
#include "support/session_model.hpp"

#include <gtest/gtest.h>

#include "support/model_histories.hpp"

namespace leat::sessiond {
namespace {

using test::SessionModel;

constexpr auto kSeeds = test::seeds_here(0, 40);
constexpr std::uint64_t kSteps = 120;

TEST(SessionModel, TracepointsAreOnForWhatTheSessionsSayAndForNothingElse) {
    struct {
        std::uint64_t histories, actions, loaded, rotated, refusals, kills, losses;
    } sum{};
    test::run_histories<SessionModel>(kSeeds, kSteps, [&](const SessionModel& model) {
        ++sum.histories;
        sum.actions += model.actions();
        sum.loaded += model.loaded();
        sum.rotated += model.rotated();
        sum.refusals += model.refusals();
        sum.kills += model.kills();
        sum.losses += model.losses();
    });
    if (sum.histories < kSeeds.count) return;
    EXPECT_GT(sum.actions, kSeeds.count * 5);
    EXPECT_GT(sum.loaded, kSeeds.count / 2);
    EXPECT_GT(sum.rotated, kSeeds.count / 10);
    EXPECT_GT(sum.refusals, kSeeds.count * 5);
    EXPECT_GT(sum.kills, kSeeds.count * 3);
    EXPECT_GT(sum.losses, kSeeds.count * 3);
}

}  // namespace
}  // namespace leat::sessiond
