#include "ctf/model/enum_labels.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "ctf/model/field_class.hpp"

namespace leat::ctf {
namespace {

constexpr std::size_t kNoLimit = SIZE_MAX;

std::vector<std::string> texts(const EnumLabels& labels, const std::vector<EnumRange>& ranges, std::uint64_t value) {
    std::vector<std::string> texts;
    for (const std::uint32_t label : labels.find(value).labels) texts.push_back(ranges[label].label);
    return texts;
}

// Finds the labels by looking at each range.
std::vector<std::string> expected_texts(const std::vector<EnumRange>& ranges, bool is_signed, std::uint64_t value) {
    const auto is_in = [&](const EnumRange& range) {
        if (!is_signed) return range.lower <= value && value <= range.upper;
        const auto number = static_cast<std::int64_t>(value);
        return static_cast<std::int64_t>(range.lower) <= number && number <= static_cast<std::int64_t>(range.upper);
    };
    std::vector<std::string> texts;
    for (const EnumRange& range : ranges) {
        if (std::ranges::find(texts, range.label) != texts.end()) continue;
        for (const EnumRange& other : ranges) {
            if (other.label != range.label || !is_in(other)) continue;
            texts.push_back(range.label);
            break;
        }
    }
    return texts;
}

TEST(EnumLabels, FindsWhatLookingAtEachRangeFinds) {
    std::mt19937_64 random(7);
    for (int round = 0; round < 200; ++round) {
        const bool is_signed = round % 2 != 0;
        std::vector<EnumRange> ranges;
        for (std::size_t i = 0; i < 20; ++i) {
            const std::uint64_t lower = random() % 40 - (is_signed ? 20U : 0U);
            ranges.push_back({std::string(1, static_cast<char>('a' + random() % 8)), lower, lower + random() % 10});
        }
        // The bounds of the whole number range.
        ranges.push_back({"high", is_signed ? 10U : ~std::uint64_t{0}, is_signed ? INT64_MAX : ~std::uint64_t{0}});
        if (is_signed) ranges.push_back({"low", static_cast<std::uint64_t>(INT64_MIN), ~std::uint64_t{0}});
        const auto labels = EnumLabels::make(ranges, is_signed, kNoLimit);
        for (std::uint64_t value = 0; value < 80; ++value)
            ASSERT_EQ(texts(*labels, ranges, value - 30), expected_texts(ranges, is_signed, value - 30)) << round;
        for (const std::uint64_t value : {std::uint64_t{INT64_MAX}, std::uint64_t{1} << 63U, ~std::uint64_t{0}})
            ASSERT_EQ(texts(*labels, ranges, value), expected_texts(ranges, is_signed, value)) << round;
    }
}

TEST(EnumLabels, LabelsOfOneValueAreBounded) {
    std::vector<EnumRange> ranges;
    for (std::size_t i = 0; i < 20'000; ++i) ranges.push_back({std::to_string(i), 0, 1'000'000 + i});
    const auto labels = EnumLabels::make(ranges, false, kNoLimit);
    const EnumLabels::Found found = labels->find(5);
    EXPECT_EQ(found.labels.size(), EnumLabels::kMaxFound);
    EXPECT_EQ(found.labels.back(), EnumLabels::kMaxFound - 1);
    EXPECT_TRUE(found.has_more);
    EXPECT_FALSE(labels->find(1'020'000).has_more);
    EXPECT_TRUE(labels->find(1'020'000).labels.empty());
    // For each range: fewer than kMaxFound labels, and what surrounds them.
    EXPECT_LT(labels->size_bytes(), 2 * ranges.size() * (4 * EnumLabels::kMaxFound + 16));
    EXPECT_EQ(EnumLabels::make(ranges, false, 1 << 20), nullptr);
}

TEST(EnumLabels, OneLabelOfManyRangesIsOne) {
    std::vector<EnumRange> ranges;
    for (std::size_t i = 0; i < 1000; ++i) ranges.push_back({"a", i, 2000});
    const auto labels = EnumLabels::make(ranges, false, kNoLimit);
    EXPECT_EQ(labels->find(1500).labels.size(), 1U);
    EXPECT_EQ(labels->label(ranges, "a"), 0U);
    EXPECT_EQ(labels->label(ranges, "b"), std::nullopt);
}

}  // namespace
}  // namespace leat::ctf
