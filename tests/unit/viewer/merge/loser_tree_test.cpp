#include "viewer/merge/loser_tree.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <utility>
#include <vector>

namespace leat::viewer {
namespace {

TEST(LoserTreeTest, WithoutSourcesItHasEnded) {
    EXPECT_TRUE(LoserTree().has_ended());
    EXPECT_TRUE(LoserTree(std::vector<LoserTree::Entry>()).has_ended());
}

TEST(LoserTreeTest, SourceThatHasEndedIsBehindAllTimes) {
    LoserTree tree({LoserTree::kEnded, {INT64_MAX, 1}, LoserTree::kEnded});
    EXPECT_EQ(tree.first().source, 1U);
    tree.end_first();
    EXPECT_TRUE(tree.has_ended());
}

TEST(LoserTreeTest, OrdersTimesThatAreFarFromEachOther) {
    // With four sources, what is near ends here behind the first.
    constexpr std::int64_t kFar = (std::int64_t{1} << 62) - (std::int64_t{1} << 60) - 3;
    for (const std::int64_t first : {std::int64_t{0}, -kFar, INT64_MIN + 1}) {
        LoserTree tree({{first, 0}, {first + kFar + 5, 1}, {first + kFar - 1, 2}, {first + kFar, 3}});
        const std::vector<std::pair<std::uint64_t, std::int64_t>> expected{
            {0, first + kFar - 1}, {2, first + kFar}, {3, first + kFar + 5}, {1, INT64_MAX}};
        for (const auto& [source, others_from_ns] : expected) {
            ASSERT_EQ(tree.first().source, source) << first;
            ASSERT_EQ(tree.others_from_ns(), others_from_ns) << first;
            tree.end_first();
        }
        EXPECT_TRUE(tree.has_ended());
    }
}

TEST(LoserTreeTest, TheFirstIsDelayedAsFarAsTheBaseCanStay) {
    constexpr std::int64_t kLast = (std::int64_t{3} << 61) - 4;  // with two sources, behind the first
    LoserTree tree({{0, 0}, {1, 1}});
    for (const std::int64_t time : {kLast + 1, INT64_MAX}) {
        EXPECT_FALSE(tree.delay_first(time)) << time;
        EXPECT_EQ(tree.first().time_ns, 0);
    }
    EXPECT_TRUE(tree.delay_first(kLast));
    EXPECT_EQ(tree.first().source, 1U);
    EXPECT_TRUE(tree.delay_first(kLast));
    EXPECT_EQ(tree.first().source, 0U);
    EXPECT_EQ(tree.first().time_ns, kLast);
}

TEST(LoserTreeTest, NothingIsTooFarForTheOnlySource) {
    LoserTree tree({{0, 0}});
    EXPECT_TRUE(tree.delay_first(INT64_MAX));
    EXPECT_EQ(tree.first().time_ns, INT64_MAX);
}

// One of the ends of the range, one of few, one that is near the other or far from it, or any.
std::int64_t random_time(std::mt19937_64& random, std::int64_t other) {
    const auto moved = [other](std::uint64_t by) {
        return static_cast<std::int64_t>(static_cast<std::uint64_t>(other) + by);
    };
    switch (random() % 8) {
        case 0:
            return INT64_MIN;
        case 1:
            return INT64_MIN + 1;
        case 2:
            return INT64_MAX;
        case 3:
            return static_cast<std::int64_t>(random());
        case 4:
            return moved(std::uint64_t{1} << random() % 64);
        case 5:
            return moved(0 - (std::uint64_t{1} << random() % 64));
        case 6:
            return moved(random() % 3);
        default:
            return static_cast<std::int64_t>(random() % 10);
    }
}

// By all steps that there are, to any time, also back.
TEST(LoserTreeTest, HasTheOrderOfASet) {
    std::mt19937_64 random(1);  // NOLINT(bugprone-random-generator-seed): the same each time
    for (int round = 0; round < 2000; ++round) {
        std::set<std::pair<std::int64_t, std::uint64_t>> model;
        std::vector<LoserTree::Entry> sources(random() % 40, LoserTree::kEnded);
        for (std::uint64_t source = 0; source < sources.size(); ++source) {
            if (random() % 6 == 0) continue;
            sources[source] = {random_time(random, 0), source};
            model.emplace(sources[source].time_ns, source);
        }
        LoserTree tree(sources);
        for (int step = 0; step < 200 && !model.empty(); ++step) {
            const auto [time_ns, source] = *model.begin();
            ASSERT_FALSE(tree.has_ended()) << round;
            ASSERT_EQ(std::pair(tree.first().time_ns, tree.first().source), std::pair(time_ns, source)) << round;
            ASSERT_EQ(tree.first_source(), source);
            model.erase(model.begin());
            const std::int64_t others_ns = model.empty() ? LoserTree::kEnded.time_ns : model.begin()->first;
            ASSERT_LE(tree.others_from_ns(), others_ns) << round;
            if (random() % 12 == 0) {
                tree.end_first();
                continue;
            }
            const std::int64_t next_ns = random_time(random, time_ns);
            const bool is_delay = time_ns != INT64_MIN && next_ns >= time_ns;
            if (random() % 2 == 0 || !is_delay || !tree.delay_first(next_ns)) tree.replace_first(next_ns);
            model.emplace(next_ns, source);
        }
        ASSERT_EQ(tree.has_ended(), model.empty()) << round;
    }
}

}  // namespace
}  // namespace leat::viewer
