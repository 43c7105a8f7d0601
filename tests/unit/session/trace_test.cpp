#include "session/trace.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "ctf/tsdl/tsdl_parser.hpp"
#include "support/test_application.hpp"

namespace leat::session {
namespace {

using test::application;
using test::TestField;

Channel small_channel(std::string name) { return {.name = std::move(name), .ring_size = 64U << 10}; }

std::unique_ptr<Trace> trace_with(std::vector<Channel> channels) {
    return *Trace::create({.session_name = "test", .key = {.uid = 1000}}, channels);
}

std::unique_ptr<Trace> trace_with_one_channel() { return trace_with({small_channel("channel0")}); }

std::uint32_t enroll(TraceChannel& channel, const Application& application, std::size_t index = 0) {
    return channel.enroll(application, index, OnConflict::kRefuse).id;
}

std::vector<std::string> event_names(const ctf::StreamClass& stream) {
    std::vector<std::string> names;
    for (const ctf::EventClass& event : stream.events) names.push_back(fmt::format("{} {}", event.id, event.name));
    return names;
}

using Names = std::vector<std::string>;

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

// Readers look for traces in directories that are not hidden, and relays refuse others.
TEST(Trace, ProcessMayCallItselfWhatNoDirectoryMayBeCalled) {
    for (const char* const name : {".hidden", ".", "..", "/.x", "./x", "a/b"}) {
        const std::string path = Trace::usual_path({.key = {.uid = 1000, .pid = 7}, .program = name});
        EXPECT_EQ(path.find("/."), std::string::npos) << path;
        EXPECT_EQ(std::ranges::count(path, '/'), 2) << path;
    }
}

TEST(Trace, InitialMetadataIsReadableByItself) {
    const std::string metadata = trace_with_one_channel()->initial_metadata();
    EXPECT_TRUE(metadata.starts_with("/* CTF 1.8 */\n"));
    for (const char* part :
         {"trace {", "env {", "clock {", "stream {", "freq = 1000000000;", "absolute = true;", "_vpid;", "_vtid;",
          "_procname[17];", "trace_name = \"test\";", "tracer_buffering_id = 1000;", "architecture_bit_width = 64;"})
        EXPECT_TRUE(contains(metadata, part)) << part;
}

TEST(Trace, ContextsAreThoseOfTheChannel) {
    Channel channel = small_channel("channel0");
    channel.contexts = wire::kContextVtid;
    const std::string metadata = trace_with({channel})->initial_metadata();
    EXPECT_FALSE(contains(metadata, "_vpid"));
    EXPECT_TRUE(contains(metadata, "_vtid;"));
}

TEST(Trace, EachChannelHasTwoStreamClassesOfItsOwnForm) {
    Channel large = small_channel("b");
    large.header = ring::HeaderKind::kLarge;
    large.contexts = 0;
    const auto trace = trace_with({small_channel("a"), large});
    EXPECT_EQ(trace->channel_names(), (Names{"a", "b"}));
    const auto read = ctf::parse_tsdl(trace->initial_metadata());
    ASSERT_TRUE(read) << read.error().message;
    ASSERT_EQ(read->streams.size(), 4U);
    for (std::uint64_t id = 0; id < 4; ++id) {
        EXPECT_EQ(read->streams[id].id, id);
        EXPECT_EQ(read->streams[id].event_context.has_value(), id < 2);
    }
    EXPECT_EQ(read->streams[0].event_header, read->streams[1].event_header);
    EXPECT_NE(read->streams[1].event_header, read->streams[2].event_header);
    EXPECT_EQ(read->streams[2].event_header, read->streams[3].event_header);
    const auto& channels = trace->channels();
    EXPECT_EQ(channels[0]->stream_class_id(), 0U);
    EXPECT_EQ(channels[0]->thread_stream_class_id(), 1U);
    EXPECT_EQ(channels[1]->stream_class_id(), 2U);
    EXPECT_EQ(channels[1]->thread_stream_class_id(), 3U);
}

TEST(Trace, SameEventHasAnIdInEachChannelThatRecordsIt) {
    const auto trace = trace_with({small_channel("a"), small_channel("b")});
    TraceChannel& a = *trace->channels()[0];
    TraceChannel& b = *trace->channels()[1];
    const Application program = application({{.name = "io:queued"}, {.name = "io:done"}});
    EXPECT_EQ(enroll(a, program, 0), 0U);
    EXPECT_EQ(enroll(a, program, 1), 1U);
    EXPECT_EQ(enroll(b, program, 1), 0U);
    const std::string metadata = trace->initial_metadata() + a.describe_new(false) + b.describe_new(true);
    const auto read = ctf::parse_tsdl(metadata);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(event_names(read->streams[0]), (Names{"0 io:queued", "1 io:done"}));
    EXPECT_EQ(event_names(read->streams[1]), Names{});
    EXPECT_EQ(event_names(read->streams[2]), (Names{"0 io:done"}));
    EXPECT_EQ(event_names(read->streams[3]), (Names{"0 io:done"}));
}

TEST(Trace, ChannelsHaveNumbersThatNoOtherHas) {
    const auto one = trace_with({small_channel("a"), small_channel("b")});
    const auto other = trace_with({small_channel("a")});
    EXPECT_NE(one->channels()[0]->number(), one->channels()[1]->number());
    EXPECT_NE(one->channels()[0]->number(), other->channels()[0]->number());
    EXPECT_NE(one->channels()[1]->number(), other->channels()[0]->number());
    EXPECT_NE(one->uuid(), other->uuid());
}

// Programs tell by it which daemon a channel is of.
TEST(Trace, NumbersOfChannelsTellTheLane) {
    for (const wire::Lane lane : {wire::Lane::kRecorder, wire::Lane{1}}) {
        const auto trace =
            *Trace::create({.session_name = "test", .key = {}, .lane = lane}, std::vector{small_channel("a")});
        EXPECT_EQ(trace->channels()[0]->number() & 3U, static_cast<std::uint32_t>(lane));
    }
}

TEST(Trace, MessageSaysWhatTheRingsAreLike) {
    Channel channel = small_channel("a");
    channel.header = ring::HeaderKind::kLarge;
    channel.contexts = wire::kContextVpid;
    const auto trace = trace_with({channel});
    const wire::ChannelMessage message = trace->channels()[0]->message();
    EXPECT_EQ(message.number, trace->channels()[0]->number());
    EXPECT_EQ(message.header_kind, static_cast<std::uint16_t>(ring::HeaderKind::kLarge));
    EXPECT_EQ(message.contexts, wire::kContextVpid);
    EXPECT_EQ(message.ring_size, 64U << 10);
    EXPECT_EQ(message.cpu_ring_count, ring::possible_cpus());
    EXPECT_EQ(message.thread_ring_count, trace->channels()[0]->rings().geometry().thread_rings);
}

// The walker and the metadata agree about an id: header, context and payload.
TEST(TraceChannel, WalkerKnowsWhatWasDescribed) {
    Channel channel = small_channel("a");
    channel.contexts = 0;
    const auto trace = trace_with({channel});
    TraceChannel& a = *trace->channels()[0];
    const std::array<std::byte, 8> record{};
    EXPECT_EQ(enroll(a, application({{.name = "a:a", .fields = {TestField{}}}})), 0U);
    EXPECT_EQ(a.walker().walk(record).records, 0U);
    (void)a.describe_new(false);
    EXPECT_EQ(a.walker().walk(record).records, 1U);
}

TEST(TraceChannel, NothingNewIsNoMetadata) {
    const auto trace = trace_with_one_channel();
    TraceChannel& channel = *trace->channels()[0];
    EXPECT_EQ(channel.describe_new(true), "");
    EXPECT_EQ(enroll(channel, application({{.name = "a:a"}})), 0U);
    EXPECT_NE(channel.describe_new(true), "");
    EXPECT_EQ(channel.describe_new(true), "");
    EXPECT_EQ(enroll(channel, application({{.name = "a:a"}})), 0U);
    EXPECT_EQ(channel.describe_new(true), "");
}

TEST(TraceChannel, StreamsOfThreadsGetWhatWasDescribedBefore) {
    const auto trace = trace_with_one_channel();
    TraceChannel& channel = *trace->channels()[0];
    const Application program = application({{.name = "a:a"}, {.name = "a:b"}, {.name = "a:c"}});
    std::string metadata = trace->initial_metadata();
    for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(enroll(channel, program, i), i);
        metadata += channel.describe_new(i == 1);  // they do not go again
    }
    const auto read = ctf::parse_tsdl(metadata);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(event_names(read->streams[0]), (Names{"0 a:a", "1 a:b", "2 a:c"}));
    EXPECT_EQ(event_names(read->streams[1]), event_names(read->streams[0]));
}

TEST(TraceChannel, QuotesInNamesStayInTheirString) {
    const auto trace = trace_with_one_channel();
    TraceChannel& channel = *trace->channels()[0];
    EXPECT_EQ(enroll(channel, application({{.name = "a:\"; };"}})), 0U);
    EXPECT_TRUE(contains(channel.describe_new(false), R"(name = "a:\"; };";)"));
}

}  // namespace
}  // namespace leat::session
