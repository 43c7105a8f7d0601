// Random histories of a relay, honest or a liar, and a viewer: see support/viewed_relay_model.hpp.
#include "support/viewed_relay_model.hpp"

#include <gtest/gtest.h>

#include "support/model_histories.hpp"

namespace leat::viewer {
namespace {

using test::ViewedRelayModel;

constexpr auto kSeeds = test::seeds_here(0, 100);

TEST(ViewedRelayModel, HonestRelaysAreToldWholeAndLiarsHarmNobody) {
    std::uint64_t histories = 0;
    std::uint64_t told = 0;
    std::uint64_t connections = 0;
    std::uint64_t complaints = 0;
    for (const std::uint64_t steps : {5, 30, 100}) {
        test::run_histories<ViewedRelayModel>(kSeeds, steps, [&](const ViewedRelayModel& model) {
            ++histories;
            told += model.told();
            connections += model.connections();
            complaints += model.complaints();
        });
    }
    if (histories < 3 * kSeeds.count) return;
    // Enough must have happened in these histories.
    EXPECT_GT(told, 50 * histories);
    EXPECT_GT(connections, 2 * histories);
    EXPECT_GT(complaints, histories);
}

}  // namespace
}  // namespace leat::viewer
