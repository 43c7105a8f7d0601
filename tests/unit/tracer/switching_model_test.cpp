// Random histories of daemons that switch tracepoints: see support/switching_model.hpp.
#include "support/switching_model.hpp"

#include <gtest/gtest.h>

#include "support/model_histories.hpp"

namespace leat::tracer {
namespace {

using test::SwitchingModel;

constexpr std::uint64_t kSeeds = 40;
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
    if (sum.histories < kSeeds) return;
    // Enough must have happened in these histories.
    EXPECT_GT(sum.written, kSeeds * 200);
    EXPECT_GT(sum.discarded, kSeeds * 10);
    EXPECT_GT(sum.not_attached, kSeeds * 10);
    EXPECT_GT(sum.in_handlers, kSeeds);
    EXPECT_GT(sum.while_switched, kSeeds * 100);
}

}  // namespace
}  // namespace leat::tracer
