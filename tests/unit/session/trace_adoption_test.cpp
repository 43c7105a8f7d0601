// How another process goes on with a trace: by its journals, rings and clock.
#include <gtest/gtest.h>
#include <unistd.h>

#include <random>

#include "ctf/tsdl/tsdl_parser.hpp"
#include "session/trace.hpp"
#include "support/file_size_limit.hpp"
#include "support/test_application.hpp"

namespace leat::session {
namespace {

using test::application;
using test::TestField;
using test::TestTracepoint;

const std::vector<Channel> kOne{{.name = "channel0", .ring_size = 64U << 10}};
const std::vector<Channel> kTwo{
    {.name = "channel0", .ring_size = 64U << 10},
    {.name = "large", .header = ring::HeaderKind::kLarge, .ring_size = 128U << 10},
};

std::unique_ptr<Trace> kept_trace(const std::vector<Channel>& channels) {
    return *Trace::create({.session_name = "test", .key = {.uid = 1000}, .is_kept = true}, channels);
}

std::vector<UniqueFd> memory_of(const Trace& trace) {
    std::vector<UniqueFd> memory;
    for (const int fd : trace.memory()) memory.emplace_back(::dup(fd));
    return memory;
}

std::unique_ptr<Trace> adopted(const Trace& before, const std::vector<Channel>& channels) {
    auto trace = Trace::adopt(before.parameters(), channels, before.shape(), memory_of(before));
    EXPECT_TRUE(trace) << trace.error().message;
    return trace ? *std::move(trace) : nullptr;
}

std::uint32_t enroll(Trace& trace, std::size_t channel, const TestTracepoint& tracepoint) {
    return trace.channels()[channel]->enroll(application({tracepoint}), 0, OnConflict::kRefuse).id;
}

// As a recording does it.
std::string begin(Trace& trace) {
    EXPECT_TRUE(trace.metadata()->append(trace.initial_metadata()));
    return trace.initial_metadata();
}
std::string describe(Trace& trace, bool has_thread_streams = false) {
    std::string metadata;
    for (const auto& channel : trace.channels()) metadata += channel->describe_new(has_thread_streams);
    EXPECT_TRUE(trace.metadata()->append(metadata));
    return metadata;
}

// Tracepoints with fields of all kinds, some of which are refused.
class AnyTracepoints {
  public:
    explicit AnyTracepoints(std::uint32_t seed) : random_(seed) {}

    TestTracepoint next() {
        TestTracepoint tracepoint{.name = "test:" + any_text() + std::to_string(names_++),
                                  .log_level = static_cast<std::int32_t>(pick(15))};
        if (pick(4) == 0) tracepoint.model_uri = "https://example.org/" + any_text();
        for (std::size_t count = pick(5), i = 0; i < count; ++i) tracepoint.fields.push_back(any_field(i));
        return tracepoint;
    }

  private:
    TestField any_field(std::size_t number) {
        static const std::vector<std::string> kNames{"x", "_x", "int", "event", "length", "__y", "State", "é"};
        TestField field{.name = kNames[pick(kNames.size())] + std::to_string(number)};
        field.shape = static_cast<std::uint8_t>(pick(6));
        field.element = static_cast<std::uint8_t>(pick(3));
        field.element_size = static_cast<std::uint8_t>(1U << pick(4));
        field.flags = static_cast<std::uint8_t>(pick(16));
        field.length_size = static_cast<std::uint8_t>(1U << pick(4));
        field.count = static_cast<std::uint32_t>(pick(20));
        if (field.element != 2) return field;
        std::int64_t low = pick(2) == 0 ? 0 : -100;
        for (std::size_t count = pick(4) + 1, i = 0; i < count; ++i) {
            const auto high = low + static_cast<std::int64_t>(pick(10));
            field.values.push_back({any_text(), low, high});
            low = high + static_cast<std::int64_t>(pick(3));
        }
        return field;
    }
    std::string any_text() {
        static const std::vector<std::string> kTexts{"plain", "a b", "\"", "\\", "*/", "};", "é", "%s", "?\?/", ""};
        return kTexts[pick(kTexts.size())];
    }
    std::size_t pick(std::size_t count) { return std::uniform_int_distribution<std::size_t>(0, count - 1)(random_); }

    std::mt19937 random_;
    int names_ = 0;
};

TEST(AdoptedTrace, IsTheSame) {
    const auto before = kept_trace(kTwo);
    const auto trace = adopted(*before, kTwo);
    ASSERT_TRUE(trace);
    EXPECT_TRUE(trace->is_adopted());
    EXPECT_FALSE(before->is_adopted());
    EXPECT_EQ(trace->path(), before->path());
    EXPECT_EQ(trace->uuid(), before->uuid());
    EXPECT_EQ(trace->initial_metadata(), before->initial_metadata());
    EXPECT_EQ(trace->channel_names(), before->channel_names());
    for (std::size_t i = 0; i < kTwo.size(); ++i) {
        EXPECT_EQ(trace->channels()[i]->number(), before->channels()[i]->number());
        EXPECT_EQ(trace->channels()[i]->rings().created(), before->channels()[i]->rings().created());
        EXPECT_EQ(trace->channels()[i]->message().ring_size, before->channels()[i]->message().ring_size);
    }
}

// Whatever their fields: programs bring the same classes again, and each gets the id that it had.
TEST(AdoptedTrace, GivesTheIdsThatWereGiven) {
    const auto before = kept_trace(kTwo);
    std::string metadata = begin(*before);
    AnyTracepoints any(1);
    std::vector<TestTracepoint> tracepoints;
    std::vector<std::array<std::uint32_t, 2>> ids;
    std::size_t refused = 0;
    for (int i = 0; i < 2'000; ++i) {
        const auto& tracepoint = tracepoints.emplace_back(any.next());
        ids.push_back({enroll(*before, 0, tracepoint), i % 3 == 0 ? enroll(*before, 1, tracepoint) : 0});
        if (ids.back()[0] == wire::kNotEnabled) ++refused;
        if (i % 100 == 0) metadata += describe(*before);
        if (i == 1'500) describe(*before);
    }
    EXPECT_LT(refused, 1'500U);
    const auto trace = adopted(*before, kTwo);
    ASSERT_TRUE(trace);
    for (std::size_t i = tracepoints.size(); i-- > 0;) {
        EXPECT_EQ(enroll(*trace, 0, tracepoints[i]), ids[i][0]) << tracepoints[i].name;
        if (i % 3 == 0) {
            EXPECT_EQ(enroll(*trace, 1, tracepoints[i]), ids[i][1]) << tracepoints[i].name;
        }
    }
    for (std::size_t channel = 0; channel < 2; ++channel)
        EXPECT_EQ(trace->channels()[channel]->event_class_count(), before->channels()[channel]->event_class_count());
    // The rest is described, in the same words.
    EXPECT_EQ(describe(*trace), describe(*before));
    EXPECT_EQ(describe(*trace), "");
}

TEST(AdoptedTrace, NewClassesGetNewIds) {
    const auto before = kept_trace(kOne);
    EXPECT_EQ(enroll(*before, 0, {.name = "a:a"}), 0U);
    auto second = adopted(*before, kOne);
    EXPECT_EQ(enroll(*second, 0, {.name = "a:b"}), 1U);
    const auto third = adopted(*second, kOne);
    EXPECT_EQ(enroll(*third, 0, {.name = "a:c"}), 2U);
    EXPECT_EQ(enroll(*third, 0, {.name = "a:b"}), 1U);
    EXPECT_EQ(enroll(*third, 0, {.name = "a:a"}), 0U);
}

TEST(AdoptedTrace, DescribesWhatWasNotDescribed) {
    const auto before = kept_trace(kOne);
    begin(*before);
    enroll(*before, 0, {.name = "a:a", .fields = {TestField{}}});
    describe(*before);
    enroll(*before, 0, {.name = "a:b"});
    const auto trace = adopted(*before, kOne);
    const std::string metadata = describe(*trace);
    EXPECT_EQ(metadata.find("a:a"), std::string::npos);
    EXPECT_NE(metadata.find("a:b"), std::string::npos);
    const auto all = ctf::parse_tsdl(*trace->metadata()->read());
    ASSERT_TRUE(all) << all.error().message;
    EXPECT_EQ(all->streams.at(0).events.size(), 2U);
}

// Nothing was recorded yet.
TEST(AdoptedTrace, WithoutMetadataDescribesAll) {
    const auto before = kept_trace(kOne);
    enroll(*before, 0, {.name = "a:a"});
    const auto trace = adopted(*before, kOne);
    EXPECT_TRUE(trace->metadata()->empty());
    EXPECT_NE(trace->channels()[0]->describe_new(false).find("a:a"), std::string::npos);
}

TEST(AdoptedTrace, KnowsWhetherStreamsOfThreadsAreDescribed) {
    for (const bool had_threads : {false, true}) {
        const auto before = kept_trace(kOne);
        begin(*before);
        enroll(*before, 0, {.name = "a:a"});
        describe(*before, had_threads);
        const auto trace = adopted(*before, kOne);
        EXPECT_EQ(describe(*trace, true).empty(), had_threads);
        const auto all = ctf::parse_tsdl(*trace->metadata()->read());
        ASSERT_TRUE(all) << all.error().message;
        EXPECT_EQ(all->streams.at(0).events.size(), 1U);
        EXPECT_EQ(all->streams.at(1).events.size(), 1U);
    }
}

TEST(AdoptedTrace, ConflictNamesAnEarlierProgram) {
    const auto before = kept_trace(kOne);
    enroll(*before, 0, {.name = "a:a"});
    const auto trace = adopted(*before, kOne);
    const auto refused =
        trace->channels()[0]->enroll(application({{.name = "a:a", .fields = {TestField{}}}}), 0, OnConflict::kRefuse);
    ASSERT_EQ(refused.conflict.size(), 1U);
    EXPECT_NE(refused.warning.find("differs from that of an earlier program"), std::string::npos) << refused.warning;
    enroll(*trace, 0, {.name = "a:a"});
    const auto again =
        trace->channels()[0]->enroll(application({{.name = "a:a", .fields = {TestField{}}}}), 0, OnConflict::kRefuse);
    EXPECT_NE(again.warning.find("program (12)"), std::string::npos) << again.warning;
}

// Each as the next one needs it: an id that it would not know is not given.
TEST(KeptTrace, EventIsNotRecordedWhileItCannotBeKept) {
    const auto trace = kept_trace(kOne);
    TraceChannel& channel = *trace->channels()[0];
    const Application program = application({{.name = "a:a"}, {.name = "a:b"}});
    const auto give = [&](std::size_t index) { return channel.enroll(program, index, OnConflict::kRefuse); };
    {
        const test::FileSizeLimit limit(16);
        const auto refused = give(0);
        EXPECT_EQ(refused.id, wire::kNotEnabled);
        EXPECT_TRUE(refused.is_over_budget);
        EXPECT_NE(refused.warning.find("event \"a:a\" of program"), std::string::npos) << refused.warning;
        EXPECT_EQ(give(0).warning, "");
    }
    EXPECT_EQ(give(1).id, 0U);
    EXPECT_EQ(give(0).id, 1U);
    EXPECT_EQ(adopted(*trace, kOne)->channels()[0]->event_class_count(), 2U);
}

TEST(KeptTrace, HasNoMoreEventsThanReadersTake) {
    std::vector<TestField> fields(500);
    for (std::size_t i = 0; i < fields.size(); ++i) fields[i].name = fmt::format("{}_{}", std::string(200, 'f'), i);
    const auto trace = kept_trace(kOne);
    std::uint32_t known = 0;
    while (enroll(*trace, 0, {.name = fmt::format("a:{}", known), .fields = fields}) != wire::kNotEnabled)
        ASSERT_LT(++known, 1000U);
    EXPECT_GT(known, 100U);
    EXPECT_LE(begin(*trace).size() + describe(*trace, true).size(), ctf::kMaxMetadataSize);
}

// Nothing that was kept is believed to be whole.
class HostileTrace : public testing::Test {
  protected:
    void expect_refused(const std::string& words) {
        auto trace = Trace::adopt(before_->parameters(), kOne, shape_, std::move(memory_));
        ASSERT_FALSE(trace);
        EXPECT_NE(trace.error().message.find(words), std::string::npos) << trace.error().message;
    }
    void expect_refused_registry(const std::string& text, const std::string& words) {
        Journal journal = *Journal::create("test");
        ASSERT_TRUE(journal.append(text));
        memory_ = memory_of(*before_);
        memory_.at(1) = UniqueFd(::dup(journal.fd()));
        expect_refused(words);
    }

    std::unique_ptr<Trace> before_ = kept_trace(kOne);
    Trace::Shape shape_ = before_->shape();
    std::vector<UniqueFd> memory_ = memory_of(*before_);
};

TEST_F(HostileTrace, OneDescriptorLessIsRefused) {
    memory_.pop_back();
    expect_refused("3 descriptors");
}

TEST_F(HostileTrace, OneChannelMoreIsRefused) {
    shape_.channels.push_back(shape_.channels[0]);
    expect_refused("a trace of 1 channels");
}

TEST_F(HostileTrace, MemoryInAnotherOrderIsRefused) {
    std::swap(memory_[0], memory_[3]);
    expect_refused("no clock page");
}

TEST_F(HostileTrace, RingsOfAnotherSizeAreRefused) {
    shape_.channels[0].geometry.ring_size *= 2;
    expect_refused("no ring memory");
}

TEST_F(HostileTrace, RingsThatCannotBeAreRefused) {
    shape_.channels[0].geometry.ring_size = 5;
    expect_refused("rings of 5 bytes cannot be");
    memory_ = memory_of(*before_);
    shape_ = before_->shape();
    shape_.channels[0].geometry.thread_rings = ~std::uint32_t{0};
    expect_refused("cannot be");
}

TEST_F(HostileTrace, RegistryIsParsedAsAnyMetadata) {
    const std::string initial = before_->initial_metadata();
    expect_refused_registry("", "");
    expect_refused_registry("nonsense", "");
    expect_refused_registry(initial.substr(0, initial.size() / 2), "");
    expect_refused_registry(initial + initial, "");
    expect_refused_registry(kept_trace(kTwo)->initial_metadata(), "a trace of 1 channels has 4 streams");
}

TEST_F(HostileTrace, RegistryWithAGapIsRefused) {
    enroll(*before_, 0, {.name = "a:a"});
    enroll(*before_, 0, {.name = "a:b"});
    std::string text = *(*Journal::adopt(UniqueFd(::dup(before_->memory()[1])))).read();
    const std::size_t first = text.find("event {", before_->initial_metadata().size());
    ASSERT_NE(first, std::string::npos);
    const std::size_t second = text.find("event {", first + 1);
    ASSERT_NE(second, std::string::npos);
    expect_refused_registry(text.substr(0, first) + text.substr(second), "id 1 in place 0");
}

TEST_F(HostileTrace, MetadataIsParsedAsAnyMetadata) {
    ASSERT_TRUE(before_->metadata()->append("nonsense"));
    expect_refused("");
}

// Of a trace with fewer, or other streams.
TEST_F(HostileTrace, MetadataOfAnotherTraceDoesNoHarm) {
    const auto other = kept_trace(kTwo);
    begin(*other);
    enroll(*other, 0, {.name = "b:b"});
    describe(*other, true);
    enroll(*before_, 0, {.name = "a:a"});
    memory_[2] = UniqueFd(::dup(other->memory()[2]));
    const auto trace = Trace::adopt(before_->parameters(), kOne, shape_, std::move(memory_));
    if (trace) {
        EXPECT_EQ(enroll(**trace, 0, {.name = "a:a"}), 0U);
    }
}

}  // namespace
}  // namespace leat::session
