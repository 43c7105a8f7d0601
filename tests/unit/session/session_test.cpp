#include "session/session.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "support/test_application.hpp"

namespace leat::session {
namespace {

using test::application;
using test::TestField;
using test::TestTracepoint;

using Ids = std::vector<std::uint32_t>;

constexpr std::uint32_t kOff = wire::kNotEnabled;

Channel small_channel(std::vector<EventRule> rules = {EventRule{}}) {
    return {.rules = std::move(rules), .ring_size = 64U << 10};
}

Session active_session(std::vector<Channel> channels, Session::Buffers buffers = Session::Buffers::kEverybody) {
    Session session({.name = "test", .buffers = buffers, .uid = 7, .channels = std::move(channels)});
    session.set_active(true);
    return session;
}

Session session_with(std::vector<EventRule> rules = {EventRule{}}) {
    return active_session({small_channel(std::move(rules))});
}

// What the session tells one application.
struct Told {
    Orders orders;

    // Of each tracepoint: its id in the only channel that wants it.
    [[nodiscard]] Ids ids() const {
        Ids ids;
        for (const auto& actions : orders.actions) {
            EXPECT_LE(actions.size(), 1U);
            ids.push_back(actions.empty() ? kOff : actions.front().event_id);
        }
        return ids;
    }
    [[nodiscard]] const std::vector<std::string>& warnings() const { return orders.warnings; }
};

// Asks what is wanted of an application that is known.
Told ask(Session& session, const Application& application) {
    Told told{Orders(application.tracepoints->size())};
    session.add_orders(application, told.orders);
    return told;
}

Told enter(Session& session, const Application& application) {
    session.count(application);
    return ask(session, application);
}

// Of the only trace.
TraceChannel& channel_of(const Session& session, std::size_t channel = 0) {
    EXPECT_EQ(session.traces().size(), 1U);
    return *session.traces().begin()->second->channels().at(channel);
}

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

TEST(Session, FirstProgramGetsIdsAndDescribesThem) {
    Session session = session_with();
    const Told told =
        enter(session, application({{.name = "io:queued", .fields = {TestField{.name = "id"}}}, {.name = "io:done"}}));
    EXPECT_EQ(told.ids(), (Ids{0, 1}));
    EXPECT_TRUE(told.warnings().empty());
    ASSERT_EQ(told.orders.channels, (std::vector<const TraceChannel*>{&channel_of(session)}));
    EXPECT_EQ(told.orders.actions[0][0].channel, channel_of(session).number());
    const std::string metadata = channel_of(session).describe_new(false);
    EXPECT_TRUE(contains(metadata, "name = \"io:queued\"")) << metadata;
    EXPECT_TRUE(contains(metadata, "_id;")) << metadata;
    EXPECT_TRUE(contains(metadata, "name = \"io:done\"")) << metadata;
}

TEST(Session, SecondProgramSharesIdsAndDescribesOnlyWhatIsNew) {
    Session session = session_with();
    enter(session, application({{.name = "a:a"}, {.name = "a:b"}}));
    (void)channel_of(session).describe_new(false);
    EXPECT_EQ(enter(session, application({{.name = "a:c"}, {.name = "a:b"}})).ids(), (Ids{2, 1}));
    const std::string metadata = channel_of(session).describe_new(false);
    EXPECT_TRUE(contains(metadata, "a:c"));
    EXPECT_FALSE(contains(metadata, "a:b"));
}

TEST(Session, WhatTheRulesDoNotMatchStaysOffAndUndescribed) {
    Session session = session_with({{.pattern = "io:*", .log_level = 6}});
    const Told told = enter(
        session, application({{.name = "net:sent"}, {.name = "io:done"}, {.name = "io:chatty", .log_level = 14}}));
    EXPECT_EQ(told.ids(), (Ids{kOff, 0, kOff}));
    EXPECT_FALSE(contains(channel_of(session).describe_new(false), "net:sent"));
    EXPECT_EQ(session.counts().registrations, 1U);
    EXPECT_EQ(session.counts().tracepoints, 3U);
    EXPECT_EQ(session.counts().enabled, 1U);
}

TEST(Session, ApplicationThatHasNothingOfInterestMakesNoTrace) {
    Session session = session_with({{.pattern = "io:*"}});
    const Told told = enter(session, application({{.name = "net:sent"}}));
    EXPECT_TRUE(told.orders.channels.empty());
    EXPECT_TRUE(session.traces().empty());
}

TEST(Session, ConflictIsRefusedAndNamesBothProgramsAndTheDifference) {
    Session session = session_with();
    enter(session, application({{.name = "a:a", .fields = {TestField{.element_size = 4}}, .file = "a.c", .line = 7}}));
    Application other =
        application({{.name = "a:a", .fields = {TestField{.element_size = 8}}, .file = "b.c"}, {.name = "a:b"}});
    other.pid = 13;
    other.procname = "other";
    const Told told = enter(session, other);
    EXPECT_EQ(told.ids(), (Ids{kOff, 1}));
    EXPECT_EQ(told.warnings(),
              (std::vector<std::string>{"event \"a:a\" of other (13), b.c:12 differs from that of program (12), a.c:7: "
                                        "field \"field\" is uint32 there, uint64 here: not recorded; rename one of "
                                        "them"}));
    ASSERT_EQ(session.conflicts().size(), 1U);
    EXPECT_EQ(session.conflicts()[0].channel, "channel0");
    EXPECT_EQ(session.conflicts()[0].conflict.refused.program, "other");
    EXPECT_EQ(session.conflicts()[0].conflict.refused.pid, 13);
}

TEST(Session, ApplicationThatIsAskedAgainHasItsIdsAndWarnsNoMore) {
    Session session = session_with();
    enter(session, application({{.name = "a:a"}}));
    const Application program =
        application({{.name = "a:b"}, {.name = "a:a", .log_level = 5}, {.name = "a:bad", .log_level = 99}});
    const Told first = enter(session, program);
    EXPECT_EQ(first.ids(), (Ids{1, kOff, kOff}));
    EXPECT_EQ(first.warnings().size(), 2U);
    const Told again = ask(session, program);
    EXPECT_EQ(again.ids(), first.ids());
    EXPECT_TRUE(again.warnings().empty());
    EXPECT_EQ(session.conflicts().size(), 1U);
    EXPECT_EQ(channel_of(session).event_class_count(), 2U);
}

TEST(Session, RuleForVersionsGivesWhatConflictsAnIdOfItsOwn) {
    Session session = session_with();
    enter(session, application({{.name = "a:a"}}));
    const Application other = application({{.name = "a:a", .log_level = 5}});
    EXPECT_EQ(enter(session, other).ids(), (Ids{kOff}));
    session.channels()[0].rules[0].on_conflict = OnConflict::kVersion;
    const Told told = ask(session, other);
    EXPECT_EQ(told.ids(), (Ids{1}));
    EXPECT_TRUE(told.warnings().empty());
    EXPECT_EQ(ask(session, other).ids(), (Ids{1}));
    session.channels()[0].rules[0].on_conflict = OnConflict::kRefuse;
    EXPECT_EQ(ask(session, other).ids(), (Ids{1})) << "an id that was given stays";
}

TEST(Session, BadTracepointOfARuleForVersionsWarnsOnce) {
    Session session = session_with({{.on_conflict = OnConflict::kVersion}});
    const Application program = application({{.name = "a:bad", .log_level = 99}});
    EXPECT_EQ(enter(session, program).warnings().size(), 1U);
    EXPECT_TRUE(ask(session, program).warnings().empty());
}

// Several source files of one program include the header that declares it.
TEST(Session, SameTracepointOfSeveralFilesIsOneEvent) {
    Session session = session_with({{.pattern = "a:*"}});
    const Told told = enter(session, application({{.name = "a:a"}, {.name = "b:b"}, {.name = "a:a"}, {.name = "b:b"}}));
    EXPECT_EQ(told.ids(), (Ids{0, kOff, 0, kOff}));
    EXPECT_EQ(session.counts().tracepoints, 2U);
    EXPECT_EQ(session.counts().enabled, 1U);
}

TEST(Session, OneBadTracepointIsSkippedAndNamed) {
    Session session = session_with();
    const TestTracepoint bad{.name = "a:bad", .fields = {TestField{.name = "x"}, TestField{.name = "x"}}, .line = 30};
    const Told told = enter(session, application({{.name = "a:a"}, bad, {.name = "a:b"}}));
    EXPECT_EQ(told.ids(), (Ids{0, kOff, 1}));
    EXPECT_EQ(told.warnings(), (std::vector<std::string>{"program (12): tracepoint \"a:bad\" of test.c:30 is not "
                                                         "recorded: it has two fields \"x\""}));
    EXPECT_FALSE(contains(channel_of(session).describe_new(false), "a:bad"));
}

TEST(Session, BadTracepointThatNobodyWantsGivesNoWarning) {
    Session session = session_with({{.pattern = "a:good"}});
    EXPECT_TRUE(enter(session, application({{.name = "a:bad", .log_level = 99}})).warnings().empty());
}

TEST(Session, ManyBadTracepointsGiveFewWarnings) {
    Session session = session_with();
    std::vector<TestTracepoint> bad;
    for (int i = 0; i < 30; ++i) bad.push_back({.name = fmt::format("a:{}", i), .log_level = 99});
    const Told told = enter(session, application(bad));
    ASSERT_EQ(told.warnings().size(), 21U);
    EXPECT_EQ(told.warnings().back(), "program (12): 10 more tracepoints are not recorded");
}

TEST(Session, EventThatTwoChannelsWantHasAnIdInEach) {
    Session session = active_session({small_channel(), small_channel({{.pattern = "a:b"}})});
    const Told told = enter(session, application({{.name = "a:a"}, {.name = "a:b"}}));
    const std::uint32_t first = channel_of(session, 0).number();
    const std::uint32_t second = channel_of(session, 1).number();
    ASSERT_EQ(told.orders.actions[0].size(), 1U);
    EXPECT_EQ(told.orders.actions[0][0].channel, first);
    ASSERT_EQ(told.orders.actions[1].size(), 2U);
    EXPECT_EQ(told.orders.actions[1][0].channel, first);
    EXPECT_EQ(told.orders.actions[1][0].event_id, 1U);
    EXPECT_EQ(told.orders.actions[1][1].channel, second);
    EXPECT_EQ(told.orders.actions[1][1].event_id, 0U);
    EXPECT_EQ(told.orders.channels.size(), 2U);
    EXPECT_EQ(session.counts().enabled, 3U);
}

// What a control file has room for.
TEST(Session, EventThatTooManyChannelsWantGoesToTheFirstOnes) {
    Session session = active_session(std::vector<Channel>(wire::kMaxActions + 1, small_channel()));
    const Told told = enter(session, application({{.name = "a:a"}}));
    EXPECT_EQ(told.orders.actions[0].size(), wire::kMaxActions);
    EXPECT_EQ(told.warnings(),
              (std::vector<std::string>{"program (12): \"a:a\" is wanted by more than 16 channels: not recorded "
                                        "in channel \"channel0\" of session \"test\""}));
}

TEST(Session, EventsThatASessionRecordsAreTakenFromItByNoOther) {
    Session web({.name = "web", .channels = {small_channel()}});
    Session aaa({.name = "aaa", .channels = std::vector<Channel>(wire::kMaxActions, small_channel())});
    web.set_active(true);
    const Application program = application({{.name = "a:a"}});
    const Orders::Actions before = ask(web, program).orders.actions;
    aaa.set_active(true);
    Orders orders(before);
    aaa.add_orders(program, orders);
    web.add_orders(program, orders);
    ASSERT_EQ(orders.actions[0].size(), wire::kMaxActions);
    EXPECT_EQ(std::ranges::count(orders.actions[0], before[0][0]), 1);
    EXPECT_EQ(orders.warnings,
              (std::vector<std::string>{"program (12): \"a:a\" is wanted by more than 16 channels: not recorded in "
                                        "channel \"channel0\" of session \"aaa\""}));
}

TEST(Session, ChannelThatWaitsForRingsAndFindsNoRoomIsWarnedOf) {
    Session web({.name = "web",
                 .channels = {small_channel()},
                 .admit = [](const RegistryKey&, std::span<const Channel>) -> Result<Trace::Claim> {
                     return refused("full");
                 }});
    web.set_active(true);
    Session first = active_session(std::vector<Channel>(wire::kMaxActions, small_channel()));
    const Application program = application({{.name = "a:a"}});
    Orders orders(1);
    first.add_orders(program, orders);
    web.add_orders(program, orders);
    ASSERT_EQ(orders.warnings.size(), 2U);
    EXPECT_TRUE(contains(orders.warnings[1], "not recorded in channel \"channel0\" of session \"web\""));
}

TEST(Session, WhatIsSwitchedOffWantsNothing) {
    Session session = session_with({{.pattern = "a:*"}, {.pattern = "b:*"}});
    const Application program = application({{.name = "a:a"}, {.name = "b:b"}});
    EXPECT_EQ(enter(session, program).ids(), (Ids{0, 1}));
    session.channels()[0].rules[0].is_enabled = false;
    EXPECT_EQ(ask(session, program).ids(), (Ids{kOff, 1}));
    session.channels()[0].is_enabled = false;
    EXPECT_EQ(ask(session, program).ids(), (Ids{kOff, kOff}));
    session.channels()[0].is_enabled = true;
    session.set_active(false);
    EXPECT_EQ(ask(session, program).ids(), (Ids{kOff, kOff}));
    session.set_active(true);
    EXPECT_EQ(ask(session, program).ids(), (Ids{kOff, 1})) << "under its old id";
}

TEST(Session, OnlyTrackedProcessesAreRecorded) {
    Session session = session_with();
    const Application program = application({{.name = "a:a"}});
    const auto is_recorded = [&] { return ask(session, program).ids() == Ids{0}; };
    EXPECT_TRUE(is_recorded());
    session.tracked().vpids = {11, 12};
    EXPECT_TRUE(is_recorded());
    session.tracked().vpids = {11};
    EXPECT_FALSE(is_recorded());
    session.tracked().vpids = std::nullopt;
    session.tracked().vuids = {1001};
    EXPECT_FALSE(is_recorded());
    session.tracked().vuids = {1000};
    session.tracked().vgids.emplace();
    EXPECT_FALSE(is_recorded()) << "a set may be empty";
}

TEST(Session, EachUserHasATraceWithIdsOfItsOwn) {
    Session session = active_session({small_channel()}, Session::Buffers::kUser);
    const Application mine = application({{.name = "a:a"}, {.name = "a:b"}});
    Application yours = application({{.name = "a:b", .log_level = 5}});
    yours.uid = 1001;
    EXPECT_EQ(enter(session, mine).ids(), (Ids{0, 1}));
    const Told told = enter(session, yours);
    EXPECT_EQ(told.ids(), (Ids{0})) << "nor is it a conflict";
    ASSERT_EQ(session.traces().size(), 2U);
    EXPECT_EQ(session.traces().at(session.key_of(mine))->path(), "ust/uid/1000/64-bit");
    const Trace& trace = *session.traces().at(session.key_of(yours));
    EXPECT_EQ(trace.path(), "ust/uid/1001/64-bit");
    const Trace* found = nullptr;
    EXPECT_EQ(session.find_channel(told.orders.actions[0][0].channel, &found), trace.channels()[0].get());
    EXPECT_EQ(found, &trace);
    EXPECT_EQ(session.find_channel(0), nullptr);
    EXPECT_EQ(session.counts().enabled, 3U);
}

TEST(Session, TraceOfEverybodyIsOfTheSessionsUser) {
    Session session = session_with();
    Application other = application({{.name = "a:a"}});
    other.uid = 1001;
    enter(session, application({{.name = "a:a"}}));
    enter(session, other);
    ASSERT_EQ(session.traces().size(), 1U);
    EXPECT_EQ(session.traces().begin()->second->path(), "ust/uid/7/64-bit");
}

TEST(Session, EachProcessMayHaveATrace) {
    Session session = active_session({small_channel()}, Session::Buffers::kPid);
    Application other = application({{.name = "a:a"}});
    other.pid = 13;
    enter(session, application({{.name = "a:a"}}));
    enter(session, other);
    EXPECT_EQ(session.traces().size(), 2U);
}

// A server's worker becomes another user at once; a program executes itself.
TEST(Session, TracesOfAProcessHavePlacesOfTheirOwn) {
    Session session = active_session({small_channel()}, Session::Buffers::kPid);
    std::set<std::string> paths;
    for (const uid_t uid : {1000U, 1001U, 1001U}) {
        Application known = application({{.name = "a:a"}});
        known.uid = uid;
        enter(session, known);
        const auto trace = session.take_trace(session.key_of(known));
        EXPECT_TRUE(paths.insert(trace->path()).second) << trace->path();
    }
}

// A daemon goes on, and then the program of a trace executes itself.
TEST(Session, TraceThatWasAdoptedKeepsItsPlaceForItself) {
    Session before = active_session({small_channel()}, Session::Buffers::kPid);
    Session session = active_session({small_channel()}, Session::Buffers::kPid);
    const Application known = application({{.name = "a:a"}});
    enter(before, known);
    EXPECT_EQ(session.add_trace(before.take_trace(before.key_of(known))), nullptr);
    const auto adopted = session.take_trace(session.key_of(known));
    enter(session, known);
    EXPECT_NE(session.traces().begin()->second->path(), adopted->path());
}

// What it wrote as the program before is not lost.
TEST(Session, TraceOfAProcessThatHasAnotherComesBack) {
    Session before = active_session({small_channel()}, Session::Buffers::kPid);
    Session session = active_session({small_channel()}, Session::Buffers::kPid);
    const Application known = application({{.name = "a:a"}});
    for (Session* const each : {&before, &session}) enter(*each, known);
    auto ending = before.take_trace(before.key_of(known));
    const Trace* const its = ending.get();
    EXPECT_EQ(session.add_trace(std::move(ending)).get(), its);
    EXPECT_EQ(session.traces().size(), 1U);
}

TEST(Session, WhoGetsNoTraceCountsInAChannelWithoutRings) {
    bool has_room = false;
    Session session(
        {.name = "test", .channels = {small_channel()}, .admit = [&](const RegistryKey&, std::span<const Channel>) {
             return has_room ? Result<Trace::Claim>() : Result<Trace::Claim>(refused("no room"));
         }});
    session.set_active(true);
    const Application program = application({{.name = "a:a"}, {.name = "a:b"}});
    const Told waiting = ask(session, program);
    EXPECT_TRUE(waiting.orders.is_waiting);
    EXPECT_EQ(waiting.warnings(), std::vector<std::string>{"program (12): no room"});
    for (const auto& actions : waiting.orders.actions) {
        ASSERT_EQ(actions.size(), 1U);
        EXPECT_EQ(actions.front().event_id, wire::kNotEnabled);
        ASSERT_NE(session.find_channel_name(actions.front().channel), nullptr);
        EXPECT_EQ(*session.find_channel_name(actions.front().channel), "channel0");
        EXPECT_EQ(session.find_channel(actions.front().channel), nullptr);
    }
    EXPECT_EQ(ask(session, program).warnings().size(), 0U);
    EXPECT_EQ(session.refused().traces.size(), 1U);
    has_room = true;
    const Told told = ask(session, program);
    EXPECT_FALSE(told.orders.is_waiting);
    EXPECT_EQ(told.ids(), (Ids{0, 1}));
    EXPECT_EQ(session.refused().traces.size(), 0U);
}

TEST(Session, EventsBeyondTheUsersBudgetAreCountedAndToldOnce) {
    DescriptionBudgets budgets;
    budgets.emplace(1000, DescriptionBudget(100));
    Session session(
        {.name = "test", .buffers = Session::Buffers::kUser, .channels = {small_channel()}, .budgets = &budgets});
    session.set_active(true);
    const Application program = application({{.name = "a:a"}, {.name = "a:b"}, {.name = "a:c"}});
    const Told told = ask(session, program);
    EXPECT_EQ(told.ids(), (Ids{0, kOff, kOff}));
    EXPECT_EQ(told.warnings().size(), 1U);
    EXPECT_EQ(session.refused().events, 2U);
    EXPECT_TRUE(contains(session.refused().reason, "a:c"));
    const Told again = ask(session, program);
    EXPECT_EQ(again.ids(), (Ids{0, kOff, kOff}));
    EXPECT_EQ(again.warnings().size(), 0U);
    EXPECT_EQ(session.refused().events, 2U);
    budgets.at(1000).give_back(1000);
    EXPECT_EQ(ask(session, program).ids(), (Ids{0, 1, 2}));
}

// They take from the budget of their user.
TEST(Session, DescriptionsOfProgramsThatAreGoneAreNotKept) {
    Session session = session_with();
    Application program = application({{.name = "a:a"}});
    const std::weak_ptr<const Tracepoints> tracepoints = program.tracepoints;
    ASSERT_EQ(ask(session, program).ids(), (Ids{0}));
    program.tracepoints.reset();
    EXPECT_TRUE(tracepoints.expired());
    EXPECT_EQ(ask(session, application({{.name = "b:b"}})).ids(), (Ids{1})) << "perhaps at the same address";
}

}  // namespace
}  // namespace leat::session
