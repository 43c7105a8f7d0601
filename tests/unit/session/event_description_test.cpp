#include "session/event_description.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "ctf/tsdl/tsdl_parser.hpp"
#include "ctf/tsdl/tsdl_writer.hpp"
#include "session/trace.hpp"
#include "support/test_application.hpp"

namespace leat::session {
namespace {

using test::TestField;
using test::TestTable;
using test::TestTracepoint;

TestField number(const std::string& name) { return {.name = name}; }
TestField sequence(const std::string& name) { return {.name = name, .shape = 2, .length_size = 4}; }

Result<ctf::EventClass> describe(const std::vector<TestField>& fields) {
    const TestTable table{{TestTracepoint{.fields = fields}}};
    return event_class_of(wire::parse_descriptions(test::untrusted(table.bytes()))->at(0));
}

std::vector<std::string> written_names(const std::vector<TestField>& fields) {
    const auto event_class = describe(fields);
    if (!event_class) return {event_class.error().message};
    std::vector<std::string> names;
    for (const ctf::StructMember& member : event_class->fields->members) names.push_back(member.name);
    return names;
}

using Names = std::vector<std::string>;

TEST(EventDescription, FieldIsWrittenWithAnUnderscore) {
    EXPECT_EQ(written_names({number("x"), number("int"), number("_y")}), (Names{"_x", "_int", "__y"}));
}

TEST(EventDescription, HiddenFieldIsNotRecorded) {
    EXPECT_EQ(written_names({number("x"), {.name = "secret", .flags = 0x80}, number("y")}), (Names{"_x", "_y"}));
}

TEST(EventDescription, LengthStandsBeforeItsSequence) {
    const auto event_class = describe({sequence("x")});
    EXPECT_EQ(event_class->fields->members.at(0).name, "__x_length");
    EXPECT_EQ(event_class->fields->members.at(1).field_class.as<ctf::SequenceClass>()->length, Names{"__x_length"});
}

// babeltrace2 shows "__x" as "_x" before it checks whether there is a "_x" already.
TEST(EventDescription, FieldAfterItsNameWithAnUnderscoreHasNone) {
    EXPECT_EQ(written_names({number("_x"), number("x")}), (Names{"__x", "x"}));
    EXPECT_EQ(written_names({number("x"), number("_x")}), (Names{"_x", "__x"}));
}

TEST(EventDescription, FieldThatWouldBecomeAKeywordHasNoUnderscore) {
    EXPECT_EQ(written_names({number("Bool"), number("Complex"), number("Imaginary"), number("_Bool")}),
              (Names{"Bool", "Complex", "Imaginary", "__Bool"}));
}

TEST(EventDescription, NamesThatCtfCannotHoldTogetherAreRefused) {
    EXPECT_EQ(written_names({number("__x"), number("_x")}),
              Names{"CTF cannot name the field \"_x\" after a field \"__x\": rename one of them"});
    EXPECT_EQ(written_names({number("_int"), number("int")}),
              Names{"CTF cannot name the field \"int\" after a field \"_int\": rename one of them"});
}

TEST(EventDescription, LengthGivesWayToFields) {
    EXPECT_EQ(written_names({sequence("x"), number("x_length")}), (Names{"__x_length_2", "_x", "_x_length"}));
    EXPECT_EQ(written_names({sequence("x"), number("_x_length")}), (Names{"__x_length_2", "_x", "__x_length"}));
    EXPECT_EQ(written_names({number("__x_length"), sequence("x")}), (Names{"___x_length", "__x_length_2", "_x"}));
    EXPECT_EQ(written_names({number("x_length"), number("x_length_2"), sequence("x")}),
              (Names{"_x_length", "_x_length_2", "__x_length_3", "_x"}));
    EXPECT_EQ(written_names({sequence("_x"), sequence("x")}), (Names{"___x_length", "__x", "__x_length_2", "x"}));
}

// Checks what babeltrace2 requires of the members of a struct, in their order.
void expect_readable(const ctf::StructClass& fields) {
    std::set<std::string, std::less<>> shown;
    for (const ctf::StructMember& member : fields.members) {
        EXPECT_FALSE(shown.contains(member.name)) << member.name;
        EXPECT_TRUE(shown.emplace(ctf::display_name(member)).second) << member.name << " is shown as another field is";
    }
}

// Names that are close to each other, to names of lengths or to keywords, and some that are invalid.
class NastyNames {
  public:
    explicit NastyNames(unsigned seed) : random_(seed) {}

    std::vector<TestField> fields() {
        std::vector<TestField> fields(1 + pick(8));
        for (TestField& field : fields) field = pick(2) == 0 ? number(name()) : sequence(name());
        return fields;
    }
    std::string name() {
        static const Names kMiddles{"x",      "int",     "Bool", "event", "x_length", "x_length_2",          "align",
                                    "string", "_length", "enum", "a$b",   "é",        std::string(253, 'y'), "",
                                    "3",      "a b"};
        return std::string(pick(4), '_') + kMiddles[pick(kMiddles.size())];
    }
    std::string text() {
        static const Names kTexts{"plain", "\"", "\\",   "%s%n", "é",    "\xff\xfe", "*/",
                                  "};",    "'",  "?\?/", " ",    "\\\"", "\t"};
        return kTexts[pick(kTexts.size())] + kTexts[pick(kTexts.size())];
    }

  private:
    std::size_t pick(std::size_t count) { return std::uniform_int_distribution<std::size_t>(0, count - 1)(random_); }

    std::mt19937 random_;
};

// Takes names from the table to the metadata. A tracepoint is refused, or a reader finds its names as the program wrote
// them.
TEST(EventDescription, WhateverTheNamesTheMetadataIsReadable) {
    const auto trace =
        *Trace::create({.session_name = "test", .key = {}}, std::vector{Channel{.ring_size = 64U << 10}});
    TraceChannel& channel = *trace->channels()[0];
    std::string metadata = trace->initial_metadata();
    NastyNames nasty(1);
    std::vector<TestTracepoint> taken;
    for (int i = 0; i < 3000; ++i) {
        TestTracepoint tracepoint{.name = fmt::format("{}:{}", nasty.text(), i), .fields = nasty.fields()};
        tracepoint.fields.push_back({.name = "state", .element = 2, .values = {{nasty.text(), 0, 1}, {"", 1, 9}}});
        const auto enrolled = channel.enroll(test::application({tracepoint}), 0, OnConflict::kRefuse);
        ASSERT_EQ(enrolled.id == wire::kNotEnabled, !enrolled.warning.empty());
        metadata += channel.describe_new(false);
        if (enrolled.id != wire::kNotEnabled) taken.push_back(tracepoint);
    }
    const auto trace_class = ctf::parse_tsdl(metadata);
    ASSERT_TRUE(trace_class) << trace_class.error().message;
    const auto& events = trace_class->streams.at(0).events;
    ASSERT_EQ(events.size(), taken.size());
    EXPECT_GT(taken.size(), 300U);
    for (std::size_t i = 0; i < taken.size(); ++i) {
        EXPECT_EQ(events[i].name, taken[i].name);
        ASSERT_NO_FATAL_FAILURE(expect_readable(*events[i].fields));
        std::vector<std::string> shown;
        for (std::size_t m = 0; m < events[i].fields->members.size(); ++m) {
            const auto& members = events[i].fields->members;
            const bool is_length =
                m + 1 < members.size() && members[m + 1].field_class.as<ctf::SequenceClass>() != nullptr;
            if (!is_length) shown.emplace_back(ctf::display_name(members[m]));
        }
        std::vector<std::string> wanted;
        for (const TestField& field : taken[i].fields) wanted.push_back(field.name);
        EXPECT_EQ(shown, wanted);
    }
}

}  // namespace
}  // namespace leat::session
