// Random histories of rings in overwrite mode and of snapshots of them: see support/snapshot_model.hpp.
#include "consumer/snapshots.hpp"

#include <gtest/gtest.h>

#include "support/model_histories.hpp"
#include "support/no_output.hpp"
#include "support/snapshot_model.hpp"
#include "support/test_rings.hpp"

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
    std::uint64_t forgotten = 0;
    std::uint64_t histories = 0;
    test::run_histories<Model>(kSeeds, kSteps, [&](const Model& model) {
        ++histories;
        packets += model.packets();
        again += model.again();
        lost += model.lost();
        left_out += model.left_out();
        forgotten += model.forgotten();
    });
    if (histories < kSeeds.count) return;
    // Enough must have happened in these histories.
    EXPECT_GT(packets, kSeeds.count * kSteps / 2);
    EXPECT_GT(again, packets / 4);
    EXPECT_GT(lost, kSeeds.count / 2);
    EXPECT_GT(left_out, kSeeds.count);
    EXPECT_GT(forgotten, 0U);
}

TEST(Snapshots, HoldTheNewestBlocksWholeAndTheSameInEach) { check_histories<test::SnapshotModel>(); }
TEST(Snapshots, WithTinyHeadersToo) { check_histories<test::TinySnapshotModel>(); }

// Files of a recording may hold anything.
TEST(Snapshots, ProgressThatCannotBeHarmsNobody) {
    const test::TestRings rings(ring::kMinRingSize, 1, true);
    ctf::RecordWalker walker(ring::kCompactHeader, 0);
    const std::array<Snapshots::Source, 1> sources{{{.rings = &rings.set(), .walker = &walker}}};
    auto progress = *Progress::create(std::array{rings.set().geometry().ring_count()});
    progress.save({0, 1}, {.position = 0, .sequence_number = 1, .counted_up_to = 1U << 20});
    for (const std::uint64_t ordinal : {std::uint64_t{3}, std::uint64_t{1}, ~std::uint64_t{0}})
        progress.add_end({0, 1}, {.ordinal = ordinal, .at = {.position = ordinal, .sequence_number = 5}});
    rings.own_ring().head = rings.own_ring().next_head = 10;
    Snapshots snapshots(sources, ctf::Uuid{7}, &progress);
    test::NoOutput output;
    const auto taken = snapshots.take(
        output, 0,
        {.before_cut = []() -> Result<void> { return {}; }, .after_write = []() -> Result<void> { return {}; }});
    ASSERT_TRUE(taken);
    EXPECT_EQ(taken->events, 0U);
    EXPECT_EQ(progress.find({0, 1})->position, 10U);
}

}  // namespace
}  // namespace leat::consumer
