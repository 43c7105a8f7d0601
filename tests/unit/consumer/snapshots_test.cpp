// Random histories of rings in overwrite mode and of snapshots of them: see support/snapshot_model.hpp.
#include "consumer/snapshots.hpp"

#include <gtest/gtest.h>

#include "support/model_histories.hpp"
#include "support/snapshot_model.hpp"

namespace leat::consumer {
namespace {

constexpr auto kSeeds = test::seeds_here(0, 200);
constexpr std::uint64_t kSteps = 200;

template <class Model>
void check_histories() {
    std::uint64_t packets = 0;
    std::uint64_t again = 0;
    std::uint64_t lost = 0;
    std::uint64_t left_out = 0;
    std::uint64_t histories = 0;
    test::run_histories<Model>(kSeeds, kSteps, [&](const Model& model) {
        ++histories;
        packets += model.packets();
        again += model.again();
        lost += model.lost();
        left_out += model.left_out();
    });
    if (histories < kSeeds.count) return;
    // Enough must have happened in these histories.
    EXPECT_GT(packets, kSeeds.count * kSteps / 2);
    EXPECT_GT(again, packets / 4);
    EXPECT_GT(lost, kSeeds.count / 2);
    EXPECT_GT(left_out, kSeeds.count);
}

TEST(Snapshots, HoldTheNewestBlocksWholeAndTheSameInEach) { check_histories<test::SnapshotModel>(); }
TEST(Snapshots, WithTinyHeadersToo) { check_histories<test::TinySnapshotModel>(); }

}  // namespace
}  // namespace leat::consumer
