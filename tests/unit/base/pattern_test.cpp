#include "base/pattern.hpp"

#include <gtest/gtest.h>

#include <string>

namespace leat {
namespace {

TEST(MatchesPattern, WithoutStarIsTheSameText) {
    EXPECT_TRUE(matches_pattern("io:queued", "io:queued"));
    EXPECT_FALSE(matches_pattern("io:queued", "io:queue"));
    EXPECT_FALSE(matches_pattern("io:queue", "io:queued"));
    EXPECT_TRUE(matches_pattern("", ""));
    EXPECT_FALSE(matches_pattern("", "a"));
}

TEST(MatchesPattern, StarIsAnyText) {
    EXPECT_TRUE(matches_pattern("*", ""));
    EXPECT_TRUE(matches_pattern("*", "io:queued"));
    EXPECT_TRUE(matches_pattern("io:*", "io:"));
    EXPECT_TRUE(matches_pattern("io:*", "io:queued"));
    EXPECT_FALSE(matches_pattern("io:*", "net:queued"));
    EXPECT_TRUE(matches_pattern("*:queued", "io:queued"));
}

TEST(MatchesPattern, SeveralStars) {
    EXPECT_TRUE(matches_pattern("a*b*c", "abc"));
    EXPECT_TRUE(matches_pattern("a*b*c", "axxbxbxc"));
    EXPECT_FALSE(matches_pattern("a*b*c", "axxcxb"));
    EXPECT_TRUE(matches_pattern("**", "x"));
    EXPECT_TRUE(matches_pattern("*a*", "banana"));
    EXPECT_TRUE(matches_pattern("*ana", "banana"));
    EXPECT_FALSE(matches_pattern("*anax", "banana"));
}

TEST(MatchesPattern, EscapedStarIsAStar) {
    EXPECT_TRUE(matches_pattern(R"(a\*)", "a*"));
    EXPECT_FALSE(matches_pattern(R"(a\*)", "ab"));
    EXPECT_TRUE(matches_pattern(R"(*\*)", "ab*"));
    EXPECT_FALSE(matches_pattern(R"(a\*)", "a"));
}

TEST(MatchesPattern, BackslashAtTheEndIsItself) { EXPECT_TRUE(matches_pattern("a\\", "a\\")); }

TEST(MatchesPattern, NothingElseIsSpecial) {
    EXPECT_FALSE(matches_pattern("io:?", "io:q"));
    EXPECT_TRUE(matches_pattern("io:?", "io:?"));
    EXPECT_TRUE(matches_pattern("[a]", "[a]"));
    EXPECT_FALSE(matches_pattern("[a]", "a"));
}

// A matcher that tries every possibility would need 2^32 tries.
TEST(MatchesPattern, ManyStarsDoNotExplode) {
    std::string pattern;
    for (int i = 0; i < 64; ++i) pattern += "*a";
    EXPECT_FALSE(matches_pattern(pattern + "b", std::string(255, 'a')));
    EXPECT_TRUE(matches_pattern(pattern, std::string(255, 'a')));
}

}  // namespace
}  // namespace leat
