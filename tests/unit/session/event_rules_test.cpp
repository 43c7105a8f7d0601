#include "session/event_rules.hpp"

#include <gtest/gtest.h>

namespace leat::session {
namespace {

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

TEST(EventRule, DefaultTakesEverything) { EXPECT_TRUE(EventRule{}.matches("a:b", 14)); }

TEST(EventRule, ExclusionWinsOverPattern) {
    const EventRule rule{.pattern = "io:*", .exclusions = {"io:poll*", "*:x"}};
    EXPECT_TRUE(rule.matches("io:queued", 0));
    EXPECT_FALSE(rule.matches("io:polled", 0));
    EXPECT_FALSE(rule.matches("io:x", 0)) << "any of them is enough";
    EXPECT_FALSE(rule.matches("net:sent", 0));
}

TEST(EventRule, LogLevelTakesTheMoreSevere) {
    const EventRule rule{.log_level = 4};
    EXPECT_TRUE(rule.matches("a:b", 0));
    EXPECT_TRUE(rule.matches("a:b", 4));
    EXPECT_FALSE(rule.matches("a:b", 5));
}

TEST(EventRule, LogLevelOnlyTakesJustThat) {
    const EventRule rule{.log_level = 4, .is_log_level_only = true};
    EXPECT_FALSE(rule.matches("a:b", 3));
    EXPECT_TRUE(rule.matches("a:b", 4));
    EXPECT_FALSE(rule.matches("a:b", 5));
}

TEST(EventRule, IsLikeWhatAsksForTheSameEvents) {
    const EventRule rule{.pattern = "a:*", .exclusions = {"a:b"}, .log_level = 4, .is_log_level_only = true};
    EXPECT_TRUE(rule.is_like(rule));
    EventRule other = rule;
    other.is_enabled = false;
    other.on_conflict = OnConflict::kVersion;
    EXPECT_TRUE(rule.is_like(other)) << "the same events, whatever becomes of them";
    for (const auto change : std::initializer_list<void (*)(EventRule&)>{
             [](EventRule& changed) { changed.pattern = "b:*"; },
             [](EventRule& changed) { changed.exclusions.clear(); }, [](EventRule& changed) { changed.log_level = 5; },
             [](EventRule& changed) { changed.log_level.reset(); },
             [](EventRule& changed) { changed.is_log_level_only = false; }}) {
        EventRule changed = rule;
        change(changed);
        EXPECT_FALSE(rule.is_like(changed));
        EXPECT_FALSE(changed.is_like(rule));
    }
}

TEST(EventRules, OnePatternOfSeveralIsEnough) {
    const std::vector<EventRule> rules = make_rules({"io:*", "net:*"}, {}, std::nullopt);
    EXPECT_NE(find_rule(rules, "net:sent", 0), nullptr);
    EXPECT_EQ(find_rule(rules, "disk:sent", 0), nullptr);
}

TEST(EventRules, AllPatternsHaveTheExclusionsAndTheLogLevel) {
    const std::vector<EventRule> rules = make_rules({"io:*", "net:*"}, {"*:poll*"}, 4);
    EXPECT_EQ(find_rule(rules, "io:polled", 0), nullptr);
    EXPECT_EQ(find_rule(rules, "net:polled", 0), nullptr);
    EXPECT_EQ(find_rule(rules, "net:sent", 5), nullptr);
    EXPECT_NE(find_rule(rules, "net:sent", 4), nullptr);
}

TEST(EventRules, NoRuleTakesNothing) { EXPECT_EQ(find_rule({}, "a:b", 0), nullptr); }

// People add a rule when they hear of a conflict.
TEST(EventRules, AnyRuleMayAskForVersions) {
    std::vector<EventRule> rules{{.pattern = "*"}, {.pattern = "a:*", .on_conflict = OnConflict::kVersion}};
    EXPECT_EQ(on_conflict(rules, "a:b", 0), OnConflict::kVersion);
    EXPECT_EQ(on_conflict(rules, "b:b", 0), OnConflict::kRefuse);
    rules[1].is_enabled = false;
    EXPECT_EQ(on_conflict(rules, "a:b", 0), OnConflict::kRefuse);
}

TEST(EventRules, FirstEnabledRuleThatMatchesCounts) {
    std::vector<EventRule> rules{{.pattern = "b:*"}, {.pattern = "a:*"}, {.pattern = "*"}};
    EXPECT_EQ(find_rule(rules, "a:b", 0), &rules[1]);
    rules[1].is_enabled = false;
    EXPECT_EQ(find_rule(rules, "a:b", 0), &rules[2]);
    rules[2].is_enabled = false;
    EXPECT_EQ(find_rule(rules, "a:b", 0), nullptr);
}

}  // namespace
}  // namespace leat::session
