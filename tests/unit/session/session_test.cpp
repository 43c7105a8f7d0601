#include "session/session.hpp"

#include <gtest/gtest.h>

#include "support/description_table.hpp"

namespace leat::session {
namespace {

using test::TestField;
using test::TestTable;
using test::TestTracepoint;

wire::AppRegistration application(const std::vector<TestTracepoint>& tracepoints) {
    return {.pid = 12,
            .uid = 1000,
            .procname = "program",
            .tracepoints = *wire::parse_descriptions(test::untrusted(TestTable{tracepoints}.bytes()))};
}

Session session_with(const EventRules& rules = {}) {
    return *Session::create({.name = "test", .rules = rules, .ring_size = 64U << 10});
}

TEST(Session, FirstProgramGetsIdsAndDescribesThem) {
    Session session = session_with();
    const auto outcome = session.register_application(
        application({{.name = "io:queued", .fields = {TestField{.name = "id"}}}, {.name = "io:done"}}));
    EXPECT_EQ(outcome.event_ids, (std::vector<std::uint32_t>{0, 1}));
    EXPECT_TRUE(outcome.warnings.empty());
    EXPECT_NE(session.describe(outcome.new_classes).find("name = \"io:queued\""), std::string::npos);
    EXPECT_NE(session.describe(outcome.new_classes).find("_id;"), std::string::npos);
    EXPECT_NE(session.describe(outcome.new_classes).find("name = \"io:done\""), std::string::npos);
}

TEST(Session, SecondProgramSharesIdsAndDescribesOnlyWhatIsNew) {
    Session session = session_with();
    session.register_application(application({{.name = "a:a"}, {.name = "a:b"}}));
    const auto outcome = session.register_application(application({{.name = "a:c"}, {.name = "a:b"}}));
    EXPECT_EQ(outcome.event_ids, (std::vector<std::uint32_t>{2, 1}));
    EXPECT_NE(session.describe(outcome.new_classes).find("a:c"), std::string::npos);
    EXPECT_EQ(session.describe(outcome.new_classes).find("a:b"), std::string::npos);
}

TEST(Session, WhatTheRulesDoNotMatchStaysOffAndUndescribed) {
    Session session = session_with({.patterns = {"io:*"}, .log_level = 6});
    const auto outcome = session.register_application(
        application({{.name = "net:sent"}, {.name = "io:done"}, {.name = "io:chatty", .log_level = 14}}));
    EXPECT_EQ(outcome.event_ids, (std::vector<std::uint32_t>{wire::kNotEnabled, 0, wire::kNotEnabled}));
    EXPECT_EQ(session.describe(outcome.new_classes).find("net:sent"), std::string::npos);
    EXPECT_EQ(session.counts().registrations, 1U);
    EXPECT_EQ(session.counts().tracepoints, 3U);
    EXPECT_EQ(session.counts().enabled, 1U);
}

TEST(Session, ConflictIsRefusedAndNamesProgramAndPlaces) {
    Session session = session_with();
    session.register_application(
        application({{.name = "a:a", .fields = {TestField{.element_size = 4}}, .file = "a.c", .line = 7}}));
    const auto outcome = session.register_application(
        application({{.name = "a:a", .fields = {TestField{.element_size = 8}}, .file = "b.c"}, {.name = "a:b"}}));
    EXPECT_EQ(outcome.event_ids, (std::vector<std::uint32_t>{wire::kNotEnabled, 1}));
    ASSERT_EQ(outcome.warnings.size(), 1U);
    EXPECT_EQ(outcome.warnings[0],
              "program (12): event \"a:a\" of b.c:12 has other fields than that of a.c:7: not recorded; "
              "rename one of them");
}

// Several source files of one program include the header that declares it.
TEST(Session, SameTracepointOfSeveralFilesIsOneEvent) {
    Session session = session_with({.patterns = {"a:*"}});
    const auto outcome =
        session.register_application(application({{.name = "a:a"}, {.name = "b:b"}, {.name = "a:a"}, {.name = "b:b"}}));
    EXPECT_EQ(outcome.event_ids, (std::vector<std::uint32_t>{0, wire::kNotEnabled, 0, wire::kNotEnabled}));
    EXPECT_EQ(session.counts().tracepoints, 2U);
    EXPECT_EQ(session.counts().enabled, 1U);
}

TEST(Session, OneBadTracepointIsSkippedAndNamed) {
    Session session = session_with();
    const TestTracepoint bad{.name = "a:bad", .fields = {TestField{.name = "x"}, TestField{.name = "x"}}, .line = 30};
    const auto outcome = session.register_application(application({{.name = "a:a"}, bad, {.name = "a:b"}}));
    EXPECT_EQ(outcome.event_ids, (std::vector<std::uint32_t>{0, wire::kNotEnabled, 1}));
    EXPECT_EQ(outcome.warnings, (std::vector<std::string>{"program (12): tracepoint \"a:bad\" of test.c:30 is not "
                                                          "recorded: it has two fields \"x\""}));
    EXPECT_EQ(session.describe(outcome.new_classes).find("a:bad"), std::string::npos);
}

TEST(Session, BadTracepointThatNobodyWantsGivesNoWarning) {
    Session session = session_with({.patterns = {"a:good"}});
    const auto outcome = session.register_application(application({{.name = "a:bad", .log_level = 99}}));
    EXPECT_TRUE(outcome.warnings.empty());
}

TEST(Session, ManyBadTracepointsGiveFewWarnings) {
    Session session = session_with();
    std::vector<TestTracepoint> bad;
    for (int i = 0; i < 30; ++i) bad.push_back({.name = fmt::format("a:{}", i), .log_level = 99});
    const auto outcome = session.register_application(application(bad));
    ASSERT_EQ(outcome.warnings.size(), 21U);
    EXPECT_EQ(outcome.warnings.back(), "program (12): 10 more tracepoints are not recorded");
}

TEST(Session, InitialMetadataIsReadableByItself) {
    const Session session = session_with();
    const std::string metadata = session.initial_metadata();
    EXPECT_TRUE(metadata.starts_with("/* CTF 1.8 */\n"));
    for (const char* part : {"trace {", "env {", "clock {", "stream {", "freq = 1000000000;", "absolute = true;",
                             "_vpid;", "_vtid;", "_procname[17];", "trace_name = \"test\";"})
        EXPECT_NE(metadata.find(part), std::string::npos) << part;
}

TEST(Session, ContextsAreThoseThatWereChosen) {
    const auto session = Session::create({.name = "test", .contexts = wire::kContextVtid, .ring_size = 64U << 10});
    EXPECT_EQ(session->initial_metadata().find("_vpid"), std::string::npos);
    EXPECT_NE(session->initial_metadata().find("_vtid;"), std::string::npos);
}

// The walker and the metadata agree about an id: header, context and payload.
TEST(Session, WalkerKnowsWhatWasRegistered) {
    Session session = *Session::create({.name = "test", .contexts = 0, .ring_size = 64U << 10});
    const std::array<std::byte, 8> record{};
    EXPECT_EQ(session.walker().walk(record).records, 0U);
    const auto outcome = session.register_application(application({{.name = "a:a", .fields = {TestField{}}}}));
    EXPECT_EQ(session.walker().walk(record).records, 0U);
    (void)session.describe(outcome.new_classes);
    EXPECT_EQ(session.walker().walk(record).records, 1U);
}

TEST(Session, QuotesInNamesStayInTheirString) {
    Session session = session_with();
    const auto outcome = session.register_application(application({{.name = "a:\"; };"}}));
    EXPECT_NE(session.describe(outcome.new_classes).find(R"(name = "a:\"; };";)"), std::string::npos);
}

}  // namespace
}  // namespace leat::session
