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

// Sources with few different times, so that many are equal, and with the ends of the range.
std::vector<std::vector<std::int64_t>> random_sources(std::mt19937_64& random) {
    std::vector<std::vector<std::int64_t>> sources(random() % 40);
    for (auto& times : sources) {
        times.resize(random() % 20);
        for (std::int64_t& time : times) {
            time = static_cast<std::int64_t>(random() % 12);
            if (time == 10) time = INT64_MIN;
            if (time == 11) time = INT64_MAX;
        }
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
