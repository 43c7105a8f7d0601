#include "session/registry.hpp"

#include <gtest/gtest.h>

namespace leat::session {
namespace {

ctf::EventClass event(const std::string& name, unsigned bits = 32, int log_level = 6) {
    ctf::EventClass event_class{.name = name, .log_level = log_level};
    event_class.fields = ctf::StructClass{{{"_field", ctf::IntegerClass{.size = bits}}}};
    return event_class;
}

TEST(Registry, NewEventGetsTheNextId) {
    Registry registry;
    EXPECT_EQ(registry.enroll(event("a:a"), "a.c:7")->id, 0U);
    const auto second = registry.enroll(event("a:b"), "a.c:7");
    EXPECT_EQ(second->id, 1U);
    EXPECT_TRUE(second->is_new);
    EXPECT_EQ(registry.size(), 2U);
    EXPECT_EQ(registry.event_class(1).name, "a:b");
    EXPECT_EQ(registry.event_class(1).id, 1U);
}

TEST(Registry, SameDescriptionKeepsItsId) {
    Registry registry;
    ASSERT_TRUE(registry.enroll(event("a:a"), "a.c:7"));
    ASSERT_TRUE(registry.enroll(event("a:b"), "a.c:7"));
    const auto again = registry.enroll(event("a:a"), "a.c:7");
    EXPECT_EQ(again->id, 0U);
    EXPECT_FALSE(again->is_new);
    EXPECT_EQ(registry.size(), 2U);
}

TEST(Registry, SameDescriptionFromAnotherPlaceIsTheSameEvent) {
    Registry registry;
    ASSERT_TRUE(registry.enroll(event("a:a"), "a.c:7"));
    const auto again = registry.enroll(event("a:a"), "b.c:12");
    ASSERT_TRUE(again);
    EXPECT_FALSE(again->is_new);
}

TEST(Registry, SameNameWithOtherFieldsIsRefusedAndBothPlacesAreNamed) {
    Registry registry;
    ASSERT_TRUE(registry.enroll(event("a:a", 32), "a.c:7"));
    const auto conflict = registry.enroll(event("a:a", 64), "b.c:12");
    ASSERT_FALSE(conflict);
    EXPECT_EQ(conflict.error().kind, ErrorKind::kRefused);
    EXPECT_EQ(conflict.error().message,
              "event \"a:a\" of b.c:12 has other fields than that of a.c:7: not recorded; rename one of them");
    EXPECT_EQ(registry.enroll(event("a:a", 32), "b.c:20")->id, 0U);
}

TEST(Registry, SameNameWithOtherLogLevelIsRefusedAndNamed) {
    Registry registry;
    ASSERT_TRUE(registry.enroll(event("a:a", 32, 6), "a.c:7"));
    const auto conflict = registry.enroll(event("a:a", 32, 7), "b.c:12");
    ASSERT_FALSE(conflict);
    EXPECT_EQ(conflict.error().message,
              "event \"a:a\" of b.c:12 has another log level than that of a.c:7: not recorded; rename one of them");
}

TEST(Registry, ClassesStayWhereTheyAreAsItGrows) {
    Registry registry;
    ASSERT_TRUE(registry.enroll(event("a:0"), "a.c:7"));
    const ctf::EventClass* first = &registry.event_class(0);
    for (int i = 1; i < 1000; ++i) ASSERT_TRUE(registry.enroll(event(fmt::format("a:{}", i)), "a.c:7"));
    EXPECT_EQ(&registry.event_class(0), first);
    EXPECT_EQ(first->name, "a:0");
}

}  // namespace
}  // namespace leat::session
