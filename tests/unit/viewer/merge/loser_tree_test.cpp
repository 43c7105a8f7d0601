#include "viewer/merge/loser_tree.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
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
    constexpr std::int64_t kFar = std::int64_t{1} << 62;  // with four sources, the ends of what is near
    for (const std::int64_t base : {std::int64_t{0}, -kFar, -2 * kFar + 1}) {
        LoserTree tree({{base, 0}, {base + kFar, 1}, {base + kFar - 4, 2}, {base + kFar - 2, 3}});
        for (const std::uint64_t source : {0, 2, 3, 1}) {
            ASSERT_EQ(tree.first().source, source) << base;
            tree.end_first();
        }
        EXPECT_TRUE(tree.has_ended());
    }
}

TEST(LoserTreeTest, TimeThatGoesBackComesFirst) {
    for (const std::int64_t back : {std::int64_t{99}, std::int64_t{-1}, INT64_MIN + 1, INT64_MIN}) {
        LoserTree tree({{100, 0}, {INT64_MAX, 1}, {100, 2}});
        tree.replace_first(back);
        EXPECT_EQ(tree.first().source, 0U) << back;
        EXPECT_EQ(tree.first().time_ns, back);
        tree.end_first();
        EXPECT_EQ(tree.first().source, 2U) << back;
        EXPECT_EQ(tree.first().time_ns, 100);
        tree.end_first();
        EXPECT_EQ(tree.first().time_ns, INT64_MAX);
    }
}

TEST(LoserTreeTest, NearbyIsWhatTheBaseCanStayFor) {
    LoserTree tree({{-100, 0}, {200, 1}});
    EXPECT_FALSE(tree.replace_first_nearby(-101));
    EXPECT_FALSE(tree.replace_first_nearby(INT64_MIN));
    EXPECT_FALSE(tree.replace_first_nearby(INT64_MAX));
    EXPECT_EQ(tree.first().time_ns, -100);
    EXPECT_TRUE(tree.replace_first_nearby(300));
    EXPECT_EQ(tree.first().source, 1U);
}

// Few different times, so that many are equal; far away ones, which some are from any other; and the ends of the range.
std::int64_t random_time(std::mt19937_64& random) {
    const auto time = static_cast<std::int64_t>(random() % 14);
    if (time == 10) return INT64_MIN;
    if (time == 11) return INT64_MAX;
    return time < 12 ? time : static_cast<std::int64_t>(random());
}

std::vector<std::vector<std::int64_t>> random_sources(std::mt19937_64& random) {
    std::vector<std::vector<std::int64_t>> sources(random() % 40);
    for (auto& times : sources) {
        times.resize(random() % 20);
        for (std::int64_t& time : times) time = random_time(random);
        std::ranges::sort(times);
    }
    return sources;
}

TEST(LoserTreeTest, TellsTheTimesOfAllSourcesInOrder) {
    std::mt19937_64 random(1);  // NOLINT(bugprone-random-generator-seed): the same each time
    for (int round = 0; round < 2000; ++round) {
        const auto sources = random_sources(random);
        std::vector<std::pair<std::int64_t, std::uint64_t>> expected;
        std::vector<LoserTree::Entry> entries;
        for (std::uint64_t source = 0; source < sources.size(); ++source) {
            for (const std::int64_t time : sources[source]) expected.emplace_back(time, source);
            entries.push_back(sources[source].empty() ? LoserTree::kEnded
                                                      : LoserTree::Entry{sources[source].front(), source});
        }
        std::ranges::sort(expected);
        std::vector<std::size_t> told(sources.size());
        LoserTree tree(entries);
        for (const auto& [time, source] : expected) {
            ASSERT_EQ(std::pair(tree.first().time_ns, tree.first().source), std::pair(time, source)) << round;
            const auto& times = sources[source];
            ++told[source] < times.size() ? tree.replace_first(times[told[source]]) : tree.end_first();
        }
        ASSERT_TRUE(tree.has_ended()) << round;
    }
}

}  // namespace
}  // namespace leat::viewer
