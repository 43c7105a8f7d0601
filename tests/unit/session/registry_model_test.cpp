// Random histories of programs that register: see support/registry_model.hpp.
#include "support/registry_model.hpp"

#include <gtest/gtest.h>

#include "support/model_histories.hpp"

namespace leat::session {
namespace {

using test::RegistryModel;

constexpr auto kSeeds = test::seeds_here(0, 150);
constexpr std::uint64_t kSteps = 120;

TEST(RegistryModel, AnIdMeansOneEventForEverAndTheMetadataSayWhich) {
    struct {
        std::uint64_t histories, ids, known, conflicts, refusals, versions, asked_again, traces;
    } sum{};
    test::run_histories<RegistryModel>(kSeeds, kSteps, [&](const RegistryModel& model) {
        ++sum.histories;
        sum.ids += model.ids();
        sum.known += model.known();
        sum.conflicts += model.conflicts();
        sum.refusals += model.refusals();
        sum.versions += model.versions();
        sum.asked_again += model.asked_again();
        sum.traces += model.traces();
    });
    if (sum.histories < kSeeds.count) return;
    // Enough must have happened in these histories.
    EXPECT_GT(sum.ids, kSeeds.count * 5);
    EXPECT_GT(sum.known, kSeeds.count * 20);
    EXPECT_GT(sum.conflicts, kSeeds.count * 20);
    EXPECT_GT(sum.refusals, kSeeds.count * 5);
    EXPECT_GT(sum.versions, kSeeds.count * 5);
    EXPECT_GT(sum.asked_again, kSeeds.count * 20);
    EXPECT_GT(sum.traces, kSeeds.count * 2);
}

}  // namespace
}  // namespace leat::session
