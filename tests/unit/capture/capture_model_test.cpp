// Random histories of writers, blocks and whoever writes them: see support/capture_model.hpp.
#include "support/capture_model.hpp"

#include <gtest/gtest.h>

#include "support/model_histories.hpp"

namespace leat::capture {
namespace {

using test::CaptureModel;

constexpr auto kSeeds = test::seeds_here(0, 300);
constexpr std::uint64_t kSteps = 300;

TEST(CaptureModel, EveryRecordIsInAFileOrCounted) {
    std::uint64_t stored = 0;
    std::uint64_t lost = 0;
    std::uint64_t discarded = 0;
    std::uint64_t full = 0;
    std::uint64_t failed = 0;
    std::uint64_t histories = 0;
    test::run_histories<CaptureModel>(kSeeds, kSteps, [&](const CaptureModel& model) {
        ++histories;
        stored += model.stored();
        lost += model.lost();
        discarded += model.discarded();
        full += model.is_full() ? 1 : 0;
        failed += model.has_failed() ? 1 : 0;
    });
    if (histories < kSeeds.count) return;
    // Enough must have happened in these histories.
    EXPECT_GT(stored, kSeeds.count * kSteps / 4);
    EXPECT_GT(lost, kSeeds.count);
    EXPECT_GT(discarded, kSeeds.count);
    EXPECT_GT(full, kSeeds.count / 20);
    EXPECT_GT(failed, kSeeds.count / 20);
}

}  // namespace
}  // namespace leat::capture
