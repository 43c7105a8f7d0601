// Random damage to random traces: see support/damaged_trace_model.hpp.
#include "support/damaged_trace_model.hpp"

#include <gtest/gtest.h>

#include "support/model_histories.hpp"

namespace leat::viewer {
namespace {

using test::DamagedTraceModel;

constexpr auto kSeeds = test::seeds_here(0, 150);

TEST(DamagedTraceModel, WhatIsRepairedIsReadToItsEndAndHasMostOfWhatNobodyTouched) {
    std::uint64_t histories = 0;
    std::uint64_t saved = 0;
    std::uint64_t lost_bytes = 0;
    for (const std::uint64_t steps : {0, 1, 2, 5}) {
        test::run_histories<DamagedTraceModel>(kSeeds, steps, [&](const DamagedTraceModel& model) {
            ++histories;
            saved += model.saved();
            lost_bytes += model.lost_bytes();
        });
    }
    if (histories < 4 * kSeeds.count) return;
    // Enough must have happened in these histories.
    EXPECT_GT(saved, 4 * histories);
    EXPECT_GT(lost_bytes, 20 * histories);
}

}  // namespace
}  // namespace leat::viewer
