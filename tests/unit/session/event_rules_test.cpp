#include "session/event_rules.hpp"

#include <gtest/gtest.h>

namespace leat::session {
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

TEST(ParseLogLevel, NamesInAnyCaseWithAndWithoutPrefix) {
    EXPECT_EQ(parse_log_level("emerg").value(), 0);
    EXPECT_EQ(parse_log_level("TRACE_WARNING").value(), 4);
    EXPECT_EQ(parse_log_level("Debug_Line").value(), 13);
    EXPECT_EQ(parse_log_level("debug").value(), 14);
}

TEST(ParseLogLevel, NumbersFrom0To14) {
    EXPECT_EQ(parse_log_level("0").value(), 0);
    EXPECT_EQ(parse_log_level("14").value(), 14);
    for (const char* wrong : {"15", "-1", "", "1x", "99999999999999999999", "TRACE_", "loud"})
        EXPECT_FALSE(parse_log_level(wrong)) << wrong;
}

TEST(EventRules, DefaultTakesEverything) { EXPECT_TRUE(EventRules{}.matches("a:b", 14)); }

TEST(EventRules, OnePatternOfSeveralIsEnough) {
    const EventRules rules{.patterns = {"io:*", "net:*"}};
    EXPECT_TRUE(rules.matches("net:sent", 0));
    EXPECT_FALSE(rules.matches("disk:sent", 0));
}

TEST(EventRules, ExclusionWinsOverPattern) {
    const EventRules rules{.patterns = {"io:*"}, .exclusions = {"io:poll*"}};
    EXPECT_TRUE(rules.matches("io:queued", 0));
    EXPECT_FALSE(rules.matches("io:polled", 0));
}

TEST(EventRules, LogLevelTakesTheMoreSevere) {
    const EventRules rules{.log_level = 4};
    EXPECT_TRUE(rules.matches("a:b", 0));
    EXPECT_TRUE(rules.matches("a:b", 4));
    EXPECT_FALSE(rules.matches("a:b", 5));
}

}  // namespace
}  // namespace leat::session
