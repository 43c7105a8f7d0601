#include "viewer/timeline/timeline.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ctf/tsdl/tsdl_parser.hpp"

namespace leat::viewer {
namespace {

// Writes what it is told.
class Told : public TimelineWriter {
  public:
    void track(const Track& track) override {
        constexpr const char* kKinds[] = {"process", "thread", "cpu", "lane"};
        lines.push_back(fmt::format("{} {} of {}: {} {} {}", kKinds[static_cast<int>(track.kind)], track.id,
                                    track.process, track.pid, track.tid, track.name));
    }
    void event(const Track& track, Phase phase, std::int64_t time_ns, std::string_view title,
               const ctf::EventRecord* event) override {
        constexpr const char* kPhases[] = {".", "(", ")"};
        lines.push_back(fmt::format("{}: {} {} {}", time_ns, track.id, kPhases[static_cast<int>(phase)], title));
        if (event == nullptr) lines.back() += ", without fields";
    }

    std::vector<std::string> lines;
};

class TimelineTest : public ::testing::Test {
  protected:
    void load(const std::string& contexts, const std::string& environment = "",
              const std::string& packet_context = "u8 cpu_id;") {
        LoadedTrace& trace = *traces_.emplace_back(std::make_unique<LoadedTrace>());
        trace.trace_class = *ctf::parse_tsdl(
            "typealias integer { size = 8; } := u8;"
            "clock { name = m; };"
            "typealias integer { size = 8; map = clock.m.value; } := ts8;"
            "trace { major = 1; minor = 8; byte_order = le; };"
            "env {" +
            environment +
            "};"
            "stream { packet.context := struct { " +
            packet_context + " }; event.header := struct { u8 id; ts8 timestamp; };" + contexts +
            "};"
            "event { name = \"a_begin\"; id = 0; fields := struct { u8 k; }; };"
            "event { name = \"a_end\"; id = 1; fields := struct { u8 k; }; };"
            "event { name = \"other\"; id = 2; fields := struct { u8 x; }; };");
        trace.plan = *ctf::make_decode_plan(trace.trace_class, trace.trace_class.streams.front());
    }

    // What is told of these events, each of some bytes.
    std::vector<std::string> told(const std::vector<std::string>& events, std::vector<std::string> slices = {}) {
        std::vector<SliceRule> rules;
        for (const std::string& slice : slices) rules.push_back(SliceRule::parse(slice).value());
        Told writer;
        Timeline timeline(std::move(rules), writer);
        tell(timeline, events);
        EXPECT_EQ(timeline.events(), events.size());
        given_up_ = timeline.given_up();
        return writer.lines;
    }
    void tell(Timeline& timeline, const std::vector<std::string>& events) {
        LoadedTrace& trace = *traces_.back();
        std::string& bytes = trace.packets.emplace_back("\x03", 1);
        for (const std::string& event : events) bytes += event;
        const PacketView packet{.number = ++packets_,
                                .trace_class = &trace.trace_class,
                                .plan = &trace.plan,
                                .stream = &trace.stream,
                                .bytes = std::as_bytes(std::span(bytes)),
                                .content_bits = 8 * bytes.size()};
        ctf::PacketDecoder decoder(trace.plan);
        EXPECT_TRUE(decoder.start(packet.bytes, 0));
        std::vector<ctf::EventPlace> places(events.size());
        std::size_t found = 0;
        while (found < places.size()) found += decoder.locate(std::span(places).subspan(found)).value();
        for (const ctf::EventPlace& place : places) EXPECT_TRUE(timeline.add(packet, place));
    }

    static std::string event(int id, int time, int vpid, int vtid, int value) {
        return {static_cast<char>(id), static_cast<char>(time), static_cast<char>(vpid), static_cast<char>(vtid),
                static_cast<char>(value)};
    }

    struct LoadedTrace {
        ctf::TraceClass trace_class;
        ctf::DecodePlan plan;
        StreamIdentity stream{.name = "stream"};
        std::deque<std::string> packets{};
    };
    std::vector<std::unique_ptr<LoadedTrace>> traces_;  // events are of the last
    std::uint64_t given_up_ = 0;
    std::uint64_t packets_ = 0;
};

constexpr const char* kThreads = "event.context := struct { u8 vpid; u8 vtid; };";
using Lines = std::vector<std::string>;

// Without those of tracks.
Lines events_in(Lines lines) {
    std::erase_if(lines, [](const std::string& line) { return line.find(" of ") != std::string::npos; });
    return lines;
}

TEST_F(TimelineTest, ThreadsOfProcesses) {
    load(kThreads);
    EXPECT_EQ(told({event(2, 1, 7, 7, 0), event(2, 2, 7, 8, 0), event(2, 3, 9, 7, 0), event(2, 4, 7, 7, 0)}),
              (Lines{"process 1 of 0: 7 7 ", "thread 2 of 1: 7 7 ", "1: 2 . other", "thread 3 of 1: 7 8 ",
                     "2: 3 . other", "process 4 of 0: 9 9 ", "thread 5 of 4: 9 7 ", "3: 5 . other", "4: 2 . other"}));
}

// Each process has a trace of its own.
TEST_F(TimelineTest, TracesOfProcessesOfOneNumberInContainers) {
    Told writer;
    Timeline timeline({}, writer);
    for (const int pid_outside : {7, 101, 102, 101, 7}) {
        load("", fmt::format(R"(tracer_buffering_scheme = "pid"; tracer_buffering_id = {}; hostname = "h"; vpid = 7;)",
                             pid_outside));
        tell(timeline, {{2, 1, 0}});
    }
    EXPECT_EQ(writer.lines, (Lines{"process 1 of 0: 7 7 ", "cpu 2 of 1: 7 0 CPU 3", "1: 2 . other",
                                   "process 3 of 0: 1000000002 1000000002  (h, 7)", "cpu 4 of 3: 1000000002 0 CPU 3",
                                   "1: 4 . other", "process 5 of 0: 1000000004 1000000004  (h, 7)",
                                   "cpu 6 of 5: 1000000004 0 CPU 3", "1: 6 . other", "1: 4 . other", "1: 2 . other"}));
}

// What happens on another CPU at the same time is of another thread.
TEST_F(TimelineTest, CpusOfAProcessWhoseThreadsAreNotTold) {
    const std::string environment = "vpid = 7;";
    load("event.context := struct { u8 cpu_id; };", environment, "u8 x;");
    Told writer;
    Timeline timeline({}, writer);
    tell(timeline, {{0, 1, 0, 0}, {0, 2, 1, 0}, {1, 3, 0, 0}, {1, 4, 1, 0}});
    EXPECT_EQ(writer.lines, (Lines{"process 1 of 0: 7 7 ", "cpu 2 of 1: 7 0 CPU 0", "1: 2 ( a", "cpu 3 of 1: 7 0 CPU 1",
                                   "2: 3 ( a", "3: 2 ) a", "4: 3 ) a"}));
    EXPECT_EQ(timeline.without_thread(), 2U);
}

TEST_F(TimelineTest, StreamsWhereCpusAreNotTold) {
    load("", "", "u8 x;");
    EXPECT_EQ(told({{2, 1, 0}}), (Lines{"cpu 1 of 0: 0 0 stream", "1: 1 . other"}));
}

TEST_F(TimelineTest, CpusOfAnotherHostHaveItsName) {
    Told writer;
    Timeline timeline({}, writer);
    for (const char* host : {"one", "other"}) {
        load("", fmt::format("hostname = \"{}\";", host));
        tell(timeline, {{2, 1, 0}});
    }
    EXPECT_EQ(writer.lines,
              (Lines{"cpu 1 of 0: 0 0 CPU 3", "1: 1 . other", "cpu 2 of 0: 0 0 CPU 3 (other)", "1: 2 . other"}));
}

TEST_F(TimelineTest, ThreadsThatAreTooManyHaveNoSlices) {
    load("event.context := struct { integer { size = 32; } vtid; };");
    const auto of_thread = [](int id, std::uint32_t tid) {
        return std::string{static_cast<char>(id),
                           1,
                           static_cast<char>(tid),
                           static_cast<char>(tid >> 8U),
                           static_cast<char>(tid >> 16U),
                           0,
                           0};
    };
    constexpr std::uint32_t kMany = 50'000;  // each with its process
    std::vector<std::string> events;
    for (std::uint32_t tid = 1; tid <= kMany; ++tid) events.push_back(of_thread(2, tid));
    for (const int id : {0, 1})
        for (const std::uint32_t tid : {kMany + 1, kMany}) events.push_back(of_thread(id, tid));
    Told writer;
    Timeline timeline({}, writer);
    tell(timeline, events);
    EXPECT_EQ(Lines(writer.lines.end() - 5, writer.lines.end()),
              (Lines{"cpu 100001 of 0: 0 0 others", "1: 100001 . a_begin", "1: 100000 ( a", "1: 100001 . a_end",
                     "1: 100000 ) a"}));
    EXPECT_EQ(timeline.on_others(), 2U);
}

TEST_F(TimelineTest, CpusWhereThereAreNoProcesses) {
    load("");
    const std::string other{2, 1, 0};
    EXPECT_EQ(told({other}), (Lines{"cpu 1 of 0: 0 0 CPU 3", "1: 1 . other"}));
}

TEST_F(TimelineTest, NamesThatAreBeginAndEndNestInTheirThread) {
    load(kThreads);
    const Lines lines = told({event(1, 1, 7, 7, 0), event(0, 2, 7, 7, 0), event(0, 3, 7, 7, 0), event(1, 4, 7, 8, 0),
                              event(1, 5, 7, 7, 0), event(1, 6, 7, 7, 0), event(1, 7, 7, 7, 0)});
    EXPECT_EQ(events_in(lines),
              (Lines{"1: 2 . a_end", "2: 2 ( a", "3: 2 ( a", "4: 3 . a_end", "5: 2 ) a", "6: 2 ) a", "7: 2 . a_end"}));
}

TEST_F(TimelineTest, SlicesOfAKeyHaveLanesThatAreUsedAgain) {
    load(kThreads);
    const Lines lines = told({event(0, 1, 7, 7, 1), event(0, 2, 7, 8, 2), event(0, 3, 7, 7, 1), event(1, 4, 7, 8, 1),
                              event(0, 5, 7, 7, 3), event(1, 6, 7, 7, 9), event(1, 7, 7, 7, 2), event(1, 8, 7, 7, 3)},
                             {"a_begin,a_end,k"});
    EXPECT_EQ(lines, (Lines{"process 1 of 0: 7 7 ", "thread 2 of 1: 7 7 ", "lane 3 of 1: 7 0 a_begin", "1: 3 ( a_begin",
                            "thread 4 of 1: 7 8 ", "lane 5 of 1: 7 0 a_begin", "2: 5 ( a_begin",
                            "3: 3 ) a_begin, without fields", "3: 3 ( a_begin",  // the same key
                            "4: 3 ) a_begin", "5: 3 ( a_begin",
                            "6: 2 . a_end",  // never begun
                            "7: 5 ) a_begin", "8: 3 ) a_begin"}));
}

TEST_F(TimelineTest, AnEndEndsWhatIsOpenInside) {
    load(kThreads);
    const Lines lines = told({event(0, 1, 7, 7, 1), event(2, 2, 7, 7, 2), event(1, 3, 7, 7, 1)}, {"other,nosuch"});
    EXPECT_EQ(Lines(lines.begin() + 2, lines.end()),
              (Lines{"1: 2 ( a", "2: 2 ( other", "3: 2 ) other, without fields", "3: 2 ) a"}));
}

TEST_F(TimelineTest, WhatNothingEndsIsNoSlice) {
    load(kThreads);
    LoadedTrace& trace = *traces_.back();
    trace.trace_class.streams.front().events.at(1).name = "b_end";
    trace.plan = *ctf::make_decode_plan(trace.trace_class, trace.trace_class.streams.front());
    const Lines lines = told({event(0, 1, 7, 7, 1), event(2, 2, 7, 7, 2)});
    EXPECT_EQ(events_in(lines), (Lines{"1: 2 . a_begin", "2: 2 . other"}));
}

// Otherwise nothing would be a slice any more on a thread where an end is missing now and then.
TEST_F(TimelineTest, OneThatWouldLieTooDeepEndsAllItWouldLieIn) {
    load(kThreads);
    constexpr std::size_t kDeep = 1'000;
    std::vector<std::string> events(kDeep + 1, event(0, 1, 7, 7, 1));
    events.push_back(event(1, 2, 7, 7, 1));
    events.push_back(event(1, 3, 7, 7, 1));
    const Lines lines = events_in(told(events));
    ASSERT_EQ(lines.size(), kDeep + kDeep + 3);
    EXPECT_EQ(Lines(lines.end() - 4, lines.end()),
              (Lines{"1: 2 ) a, without fields", "1: 2 ( a", "2: 2 ) a", "3: 2 . a_end"}));
    EXPECT_EQ(given_up_, kDeep);
}

TEST_F(TimelineTest, AnEventMayEndSlicesOfSeveralRules) {
    load(kThreads);
    const std::vector<std::string> slices{"a_begin,other", "a_end,other"};
    EXPECT_EQ(events_in(told({event(1, 1, 7, 7, 1), event(2, 2, 7, 7, 2)}, slices)),
              (Lines{"1: 2 ( a_end", "2: 2 ) a_end"}));
    EXPECT_EQ(events_in(told({event(0, 1, 7, 7, 1), event(1, 2, 7, 7, 1), event(2, 3, 7, 7, 2)}, slices)),
              (Lines{"1: 2 ( a_begin", "2: 2 ( a_end", "3: 2 ) a_end, without fields", "3: 2 ) a_begin"}));
}

TEST_F(TimelineTest, AnEndOfSomethingElseEndsNothing) {
    load(kThreads);
    const Lines lines = told({event(0, 1, 7, 7, 1), event(2, 2, 7, 7, 2), event(1, 3, 7, 7, 1)}, {"nosuch,other"});
    EXPECT_EQ(Lines(lines.begin() + 2, lines.end()), (Lines{"1: 2 ( a", "2: 2 . other", "3: 2 ) a"}));
}

TEST_F(TimelineTest, AnEventMayEndOneSliceAndBeginTheNext) {
    load(kThreads);
    const Lines lines = told({event(0, 1, 7, 7, 1), event(1, 2, 7, 7, 1), event(2, 3, 7, 7, 1)},
                             {"a_end,other,$ctx.vtid", "a_begin,a_end,k"});
    EXPECT_EQ(events_in(lines), (Lines{"1: 3 ( a_begin", "2: 3 ) a_begin", "2: 4 ( a_end", "3: 4 ) a_end"}));
}

TEST_F(TimelineTest, SlicesOfAThreadMayFollowEachOtherToo) {
    load(kThreads);
    const Lines lines =
        told({event(0, 1, 7, 7, 1), event(1, 2, 7, 7, 1), event(2, 3, 7, 7, 1)}, {"a_begin,a_end", "a_end,other"});
    EXPECT_EQ(Lines(lines.begin() + 2, lines.end()),
              (Lines{"1: 2 ( a_begin", "2: 2 ) a_begin", "2: 2 ( a_end", "3: 2 ) a_end"}));
}

TEST_F(TimelineTest, ASliceMayReachToTheNextEventOfItsName) {
    load(kThreads);
    const std::vector<std::string> events{event(2, 1, 7, 7, 5), event(2, 2, 7, 7, 5)};
    const Lines nested = told(events, {"other,other"});
    EXPECT_EQ(Lines(nested.begin() + 2, nested.end()), (Lines{"1: 2 ( other", "2: 2 ) other", "2: 2 ( other"}));
    const Lines keyed = told(events, {"other,other,x"});
    EXPECT_EQ(Lines(keyed.begin() + 3, keyed.end()), (Lines{"1: 3 ( other", "2: 3 ) other", "2: 3 ( other"}));
}

TEST_F(TimelineTest, RulesWithAndWithoutAKeyHoldForOneEvent) {
    load(kThreads);
    const Lines lines =
        told({event(0, 1, 7, 7, 1), event(1, 2, 7, 7, 1), event(2, 3, 7, 7, 1)}, {"a_begin,other", "a_begin,a_end,k"});
    EXPECT_EQ(events_in(lines), (Lines{"1: 3 ( a_begin", "1: 2 ( a_begin", "2: 3 ) a_begin", "3: 2 ) a_begin"}));
}

TEST_F(TimelineTest, KeysOfTwoProcessesAreNotTheSame) {
    load(kThreads);
    const Lines lines = told({event(0, 1, 7, 7, 1), event(0, 2, 9, 9, 1), event(1, 3, 9, 9, 1), event(1, 4, 7, 7, 1)},
                             {"a_begin,a_end,k"});
    EXPECT_EQ(events_in(lines), (Lines{"1: 3 ( a_begin", "2: 6 ( a_begin", "3: 6 ) a_begin", "4: 3 ) a_begin"}));
}

TEST_F(TimelineTest, IdleThreadsOfAKernelAreCpus) {
    load(kThreads);
    EXPECT_EQ(told({event(2, 1, 0, 0, 0)}), (Lines{"cpu 1 of 0: 0 0 CPU 3", "1: 1 . other"}));
}

TEST_F(TimelineTest, RulesComeBeforeNames) {
    load(kThreads);
    const Lines lines = told({event(0, 1, 7, 7, 1), event(2, 2, 7, 7, 2)}, {"a_*,other"});
    EXPECT_EQ(lines.at(2), "1: 2 ( a_*");
    EXPECT_EQ(lines.at(3), "2: 2 ) a_*");
}

TEST(SliceRules, FormsOfNames) {
    const auto phase = [](std::string_view name) {
        const NamedPhase named = phase_of_name(name);
        return fmt::format("{}{}", static_cast<int>(named.phase), named.title);
    };
    EXPECT_EQ(phase("io:read_begin"), "1io:read");
    EXPECT_EQ(phase("io:read:end"), "2io:read");
    EXPECT_EQ(phase("f_entry"), "1f");
    EXPECT_EQ(phase("f_exit"), "2f");
    EXPECT_EQ(phase("syscall_entry_read"), "1read");
    EXPECT_EQ(phase("syscall_exit_read"), "2read");
    EXPECT_EQ(phase("syscall_entry_exit"), "1exit");
    EXPECT_EQ(phase("syscall_exit_exit"), "2exit");
    for (const char* name : {"begin", "_end", "append", "weekend", "io:backend", "syscall_entry_", ""})
        EXPECT_EQ(phase(name), fmt::format("0{}", name));
}

TEST(SliceRules, TextOfARule) {
    const SliceRule rule = SliceRule::parse("io:queued,io:done,$ctx.vtid").value();
    EXPECT_EQ(rule.from + "|" + rule.to + "|" + rule.title, "io:queued|io:done|io:queued");
    EXPECT_TRUE(rule.key);
    EXPECT_FALSE(SliceRule::parse("a,b").value().key);
    for (const char* wrong : {"", "a", "a,", ",b", "a,b,", "a,b,==", "a,,k"})
        EXPECT_FALSE(SliceRule::parse(wrong)) << wrong;
}

}  // namespace
}  // namespace leat::viewer
