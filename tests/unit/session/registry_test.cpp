#include "session/registry.hpp"

#include <gtest/gtest.h>

namespace leat::session {
namespace {

ctf::EventClass event(const std::string& name, unsigned bits = 32, int log_level = 6) {
    ctf::EventClass event_class{.name = name, .log_level = log_level};
    event_class.fields = ctf::StructClass{{{"_field", ctf::IntegerClass{.size = bits}}}};
    return event_class;
}

const EventOrigin kFirst{"one (12)", "a.c:7"};
const EventOrigin kSecond{"two (13)", "b.c:12"};

// Why a registry refuses `other`, which has the name of an event that it knows.
Registry::Refusal refusal_of(Registry& registry, ctf::EventClass other) {
    const auto enrolled = registry.enroll(std::move(other), kSecond);
    EXPECT_FALSE(enrolled);
    return enrolled ? Registry::Refusal{} : enrolled.error();
}

TEST(Registry, NewEventGetsTheNextId) {
    Registry registry;
    EXPECT_EQ(registry.enroll(event("a:a"), kFirst)->id, 0U);
    const auto second = registry.enroll(event("a:b"), kFirst);
    EXPECT_EQ(second->id, 1U);
    EXPECT_TRUE(second->is_new);
    EXPECT_EQ(registry.size(), 2U);
    EXPECT_EQ(registry.event_class(1).name, "a:b");
    EXPECT_EQ(registry.event_class(1).id, 1U);
}

TEST(Registry, WhatIsTakenBackWasNeverThere) {
    DescriptionBudget budget(1000);
    const auto left = [&budget] {
        std::int64_t bytes = 0;
        while (budget.has(bytes + 1)) ++bytes;
        return bytes;
    };
    Registry registry(&budget);
    ASSERT_TRUE(registry.enroll(event("a:a"), kFirst));
    const std::int64_t left_before = left();
    ASSERT_TRUE(registry.enroll(event("a:b"), kFirst));
    registry.take_back_last();
    EXPECT_EQ(left(), left_before);
    EXPECT_EQ(registry.size(), 1U);
    const auto again = registry.enroll(event("a:b", 64), kFirst);
    EXPECT_EQ(again->id, 1U);
    EXPECT_TRUE(again->is_new);
}

TEST(Registry, SameDescriptionKeepsItsId) {
    Registry registry;
    ASSERT_TRUE(registry.enroll(event("a:a"), kFirst));
    ASSERT_TRUE(registry.enroll(event("a:b"), kFirst));
    const auto again = registry.enroll(event("a:a"), kFirst);
    EXPECT_EQ(again->id, 0U);
    EXPECT_FALSE(again->is_new);
    EXPECT_EQ(registry.size(), 2U);
}

TEST(Registry, SameDescriptionFromAnotherPlaceIsTheSameEvent) {
    Registry registry;
    ASSERT_TRUE(registry.enroll(event("a:a"), kFirst));
    const auto again = registry.enroll(event("a:a"), kSecond);
    ASSERT_TRUE(again);
    EXPECT_FALSE(again->is_new);
}

TEST(Registry, SameNameWithOtherFieldsIsRefusedAndBothOriginsAreNamed) {
    Registry registry;
    ASSERT_TRUE(registry.enroll(event("a:a", 32), kFirst));
    const Registry::Refusal refusal = refusal_of(registry, event("a:a", 64));
    EXPECT_EQ(refusal.error.kind, ErrorKind::kRefused);
    EXPECT_EQ(refusal.error.message,
              "event \"a:a\" of two (13), b.c:12 differs from that of one (12), a.c:7: field \"field\" is uint32 "
              "there, uint64 here: not recorded; rename one of them");
    ASSERT_EQ(refusal.conflict.size(), 1U);
    const Conflict& conflict = refusal.conflict.front();
    EXPECT_EQ(conflict.event, "a:a");
    EXPECT_EQ(conflict.known.program, "one (12)");
    EXPECT_EQ(conflict.known.place, "a.c:7");
    EXPECT_EQ(conflict.refused.program, "two (13)");
    EXPECT_EQ(conflict.refused.place, "b.c:12");
    EXPECT_EQ(conflict.difference, "field \"field\" is uint32 there, uint64 here");
    EXPECT_EQ(registry.enroll(event("a:a", 32), kSecond)->id, 0U);
    EXPECT_EQ(registry.size(), 1U);
}

TEST(Registry, SameNameWithOtherLogLevelIsRefusedAndNamed) {
    Registry registry;
    ASSERT_TRUE(registry.enroll(event("a:a", 32, 6), kFirst));
    EXPECT_EQ(refusal_of(registry, event("a:a", 32, 7)).conflict.at(0).difference,
              "log level TRACE_INFO there, TRACE_DEBUG_SYSTEM here");
}

TEST(Registry, VersionGetsAnIdOfItsOwnAndKeepsIt) {
    Registry registry;
    ASSERT_TRUE(registry.enroll(event("a:a", 32), kFirst));
    const auto version = registry.enroll(event("a:a", 64), kSecond, OnConflict::kVersion);
    ASSERT_TRUE(version);
    EXPECT_EQ(version->id, 1U);
    EXPECT_TRUE(version->is_new);
    const auto again = registry.enroll(event("a:a", 64), kFirst);
    ASSERT_TRUE(again) << "whoever asks for a class that is known gets its id";
    EXPECT_EQ(again->id, 1U);
    EXPECT_FALSE(again->is_new);
    EXPECT_EQ(registry.enroll(event("a:a", 32), kSecond, OnConflict::kVersion)->id, 0U);
}

TEST(Registry, ConflictNamesTheFirstOfSeveralVersions) {
    Registry registry;
    ASSERT_TRUE(registry.enroll(event("a:a", 32), kFirst));
    ASSERT_TRUE(registry.enroll(event("a:a", 64), kSecond, OnConflict::kVersion));
    EXPECT_EQ(refusal_of(registry, event("a:a", 16)).conflict.at(0).known.program, "one (12)");
}

TEST(Registry, OneVersionTooManyIsAConflict) {
    Registry registry;
    for (std::uint32_t i = 0; i < kMaxVersions; ++i)
        ASSERT_TRUE(registry.enroll(event("a:a", i + 1), kFirst, OnConflict::kVersion));
    const auto refused = registry.enroll(event("a:a", kMaxVersions + 1), kSecond, OnConflict::kVersion);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().conflict.size(), 1U);
    EXPECT_EQ(registry.size(), kMaxVersions);
    EXPECT_EQ(registry.enroll(event("a:a", kMaxVersions), kSecond, OnConflict::kVersion)->id, kMaxVersions - 1);
    EXPECT_TRUE(registry.enroll(event("a:b"), kSecond, OnConflict::kVersion));
}

TEST(Registry, ClassesStayWhereTheyAreAsItGrows) {
    Registry registry;
    ASSERT_TRUE(registry.enroll(event("a:0"), kFirst));
    const ctf::EventClass* first = &registry.event_class(0);
    for (int i = 1; i < 1000; ++i) ASSERT_TRUE(registry.enroll(event(fmt::format("a:{}", i)), kFirst));
    EXPECT_EQ(&registry.event_class(0), first);
    EXPECT_EQ(first->name, "a:0");
}

TEST(Registry, NewEventThatTheBudgetHasNotIsRefused) {
    DescriptionBudget budget(200);
    {
        Registry registry(&budget);
        ASSERT_TRUE(registry.enroll(event("a:a"), kFirst));
        const Registry::Refusal refusal = refusal_of(registry, event("a:b"));
        EXPECT_TRUE(refusal.is_over_budget);
        EXPECT_NE(refusal.error.message.find("event \"a:b\" of two (13), b.c:12 is one too many"), std::string::npos);
        EXPECT_TRUE(registry.enroll(event("a:a"), kSecond));
    }
    Registry next(&budget);
    EXPECT_TRUE(next.enroll(event("a:b"), kFirst));
}

}  // namespace
}  // namespace leat::session
