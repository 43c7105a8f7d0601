// Random histories of daemons that switch tracepoints: see support/switching_model.hpp.
#include "support/switching_model.hpp"

#include <gtest/gtest.h>

#include "support/model_histories.hpp"

namespace leat::tracer {
namespace {

using test::SwitchingModel;

constexpr auto kSeeds = test::seeds_here(0, 40);
constexpr std::uint64_t kSteps = 80;

TEST(SwitchingModel, EachEventIsOnceInEachChannelThatWantsItOrCounted) {
    struct {
        std::uint64_t histories, written, discarded, not_attached, in_handlers, while_switched;
    } sum{};
    test::run_histories<SwitchingModel>(kSeeds, kSteps, [&](const SwitchingModel& model) {
        ++sum.histories;
        sum.written += model.written();
        sum.discarded += model.discarded();
        sum.not_attached += model.not_attached();
        sum.in_handlers += model.in_handlers();
        sum.while_switched += model.while_switched();
    });
    if (sum.histories < kSeeds.count) return;
    // Enough must have happened in these histories.
    EXPECT_GT(sum.written, kSeeds.count * 200);
    EXPECT_GT(sum.discarded, kSeeds.count * 10);
    EXPECT_GT(sum.not_attached, kSeeds.count * 10);
    EXPECT_GT(sum.in_handlers, kSeeds.count);
    EXPECT_GT(sum.while_switched, kSeeds.count * 100);
}

}  // namespace
}  // namespace leat::tracer
