#include "ctf/json/json_metadata.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ctf/decode/decode_plan.hpp"

namespace leat::ctf {
namespace {

const std::string kPreamble = R"({"type":"preamble","version":2})";
const std::string kStream = R"({"type":"data-stream-class"})";
const std::string kByte = R"({"type":"fixed-length-unsigned-integer","length":8,"byte-order":"little-endian"})";

std::string text_of(const std::vector<std::string>& fragments) {
    std::string text;
    for (const std::string& fragment : fragments) text += kFragmentBegin + fragment + "\n";
    return text;
}

std::string structure(const std::vector<std::pair<std::string, std::string>>& members) {
    std::string text;
    for (const auto& [name, field_class] : members)
        text += fmt::format(R"({}{{"name":"{}","field-class":{}}})", text.empty() ? "" : ",", name, field_class);
    return fmt::format(R"({{"type":"structure","member-classes":[{}]}})", text);
}

std::string event_with(const std::string& payload) {
    return fmt::format(R"({{"type":"event-record-class","payload-field-class":{}}})", payload);
}

std::string error_of(const std::vector<std::string>& fragments) {
    const auto parsed = parse_json_metadata(text_of(fragments));
    return parsed ? "" : parsed.error().message;
}

// Of a payload with this field class.
std::string error_of_field(const std::string& field_class) {
    return error_of({kPreamble, kStream, event_with(structure({{"n", kByte}, {"f", field_class}}))});
}

std::string plan_error_of(const std::vector<std::string>& fragments) {
    const auto parsed = parse_json_metadata(text_of(fragments));
    if (!parsed) return "not parsed: " + parsed.error().message;
    const auto plan = make_decode_plan(*parsed, parsed->streams.front());
    return plan ? "" : plan.error().message;
}

std::string plan_error_of_field(const std::string& field_class) {
    return plan_error_of({kPreamble, kStream, event_with(structure({{"n", kByte}, {"f", field_class}}))});
}

void expect_part(const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << '"' << text << "\" lacks \"" << part << '"';
}

TEST(JsonMetadata, WhatIsThereIsRead) {
    const auto trace = parse_json_metadata(text_of(
        {R"({"type":"preamble","version":2,"uuid":[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,255],"attributes":{"x":1}})",
         R"({"type":"clock-class","id":"c","frequency":1000,"origin":"unix-epoch",
             "offset-from-origin":{"seconds":-3,"cycles":999},"precision":7,"description":"d"})",
         R"({"type":"trace-class","environment":{"n":-5,"s":"text"},"packet-header-field-class":)" +
             structure({{"m", kByte}}) + "}",
         R"({"type":"data-stream-class","id":18446744073709551615,"default-clock-class-id":"c"})",
         R"({"type":"event-record-class","id":3,"data-stream-class-id":18446744073709551615,"name":"e",
             "attributes":{"lttng.org,2009":{"log-level":"debug:line","emf-uri":"http://x"}},
             "payload-field-class":)" +
             structure({{"_x", kByte}, {"y", kByte}}) + "}"}));
    ASSERT_TRUE(trace) << trace.error().message;
    EXPECT_EQ(to_string(*trace->uuid), "00010203-0405-0607-0809-0a0b0c0d0eff");
    EXPECT_EQ(*environment_number(*trace, "n"), -5);
    EXPECT_EQ(*environment_text(*trace, "s"), "text");
    ASSERT_EQ(trace->clocks.size(), 1U);
    EXPECT_EQ(trace->clocks.front(), (ClockClass{.name = "c",
                                                 .description = "d",
                                                 .frequency = 1000,
                                                 .precision = 7,
                                                 .offset_s = -3,
                                                 .offset = 999,
                                                 .is_absolute = true}));
    EXPECT_EQ(trace->packet_header->members.size(), 1U);
    const StreamClass& stream = trace->streams.front();
    EXPECT_EQ(stream.id, UINT64_MAX);
    EXPECT_EQ(stream.clock, "c");
    const EventClass& event = stream.events.front();
    EXPECT_EQ(event.id, 3U);
    EXPECT_EQ(event.log_level, 13);
    EXPECT_EQ(event.model_uri, "http://x");
    EXPECT_EQ(display_name(event.fields->members[0]), "_x");
    EXPECT_EQ(display_name(event.fields->members[1]), "y");
}

TEST(JsonMetadata, AnEventWithoutANameIsShownAsUnknown) {
    const auto trace = parse_json_metadata(text_of({kPreamble, kStream, R"({"type":"event-record-class"})"}));
    EXPECT_EQ(trace.value().streams.front().events.front().name, "<unknown>");
}

TEST(JsonMetadata, SeparatorsMayBeRepeatedAndTheLastLineEndMayBeMissing) {
    EXPECT_TRUE(parse_json_metadata("\x1e\x1e \n\x1e" + kPreamble + "\x1e" + kStream));
}

TEST(JsonMetadata, GrowsAsItsTextDoes) {
    JsonMetadataReader reader;
    std::string text;
    const auto add = [&](const std::string& fragment) {
        text += kFragmentBegin + fragment + "\n";
        return reader.read(text);
    };
    ASSERT_TRUE(add(kPreamble));
    EXPECT_EQ(reader.trace_class(), nullptr);
    ASSERT_TRUE(add(R"({"type":"trace-class"})"));
    ASSERT_NE(reader.trace_class(), nullptr);
    ASSERT_TRUE(add(kStream));
    const StreamClass* const stream = &reader.trace_class()->streams.front();
    ASSERT_TRUE(add(event_with(structure({{"f", kByte}}))));
    EXPECT_EQ(stream, &reader.trace_class()->streams.front());
    EXPECT_EQ(stream->events.size(), 1U);
    EXPECT_EQ(reader.fragments_read(), 4U);
    expect_part(add("{").error().message, "fragment 5: no JSON from byte");
    expect_part(add(kStream).error().message, "fragment 5");
    EXPECT_EQ(stream->events.size(), 1U);
}

TEST(JsonMetadata, FragmentsThatAreWrongAreNamed) {
    const std::vector<std::pair<std::vector<std::string>, std::string>> cases{
        {{kStream}, "fragment 1: the first must be a preamble, not \"data-stream-class\""},
        {{kPreamble, kPreamble}, "fragment 2: preamble: there is one already"},
        {{kPreamble}, "there is no data-stream-class"},
        {{R"({"type":"preamble","version":3})"}, "version 3 of CTF"},
        {{R"({"type":"preamble"})"}, "the property \"version\" is missing"},
        {{R"({"type":"preamble","version":2.0})"}, "version: expected an integer of at least 0, found 2.0"},
        {{R"({"type":"preamble","version":2,"uuid":[1,2]})"}, "uuid: expected 16 numbers"},
        {{R"({"type":"preamble","version":2,"uuid":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,256]})"}, "uuid: expected 16"},
        {{R"({"type":"preamble","version":2,"extensions":{"x":{"y":1}}})"}, "it needs the extension"},
        {{R"({"type":"preamble","version":2,"verison":2})"}, "unknown property \"verison\""},
        {{kPreamble, "[]"}, "fragment 2: expected an object, found an array of 0"},
        {{kPreamble, "{}"}, "fragment 2: type: expected a string, found none"},
        {{kPreamble, R"({"type":"stream"})"}, "type: \"stream\" is unknown"},
        {{kPreamble, kStream, kStream}, "data-stream-class: id: 0 is declared twice"},
        {{kPreamble, kStream, R"({"type":"trace-class"})"}, "it is declared twice, or after a data-stream-class"},
        {{kPreamble, R"({"type":"trace-class","environment":{"x":true}})"}, "environment: \"x\": expected an integer"},
        {{kPreamble, R"({"type":"trace-class","packet-header-field-class":)" + kByte + "}"}, "expected a structure"},
        {{kPreamble, R"({"type":"clock-class","id":"c"})"}, "the property \"frequency\" is missing"},
        {{kPreamble, R"({"type":"clock-class","id":"c","frequency":0})"},
         "frequency: expected an integer of at least 1"},
        {{kPreamble, R"({"type":"clock-class","id":1,"frequency":9})"}, "id: expected a string, found 1"},
        {{kPreamble, R"({"type":"clock-class","id":"c","frequency":9,"origin":"birth"})"}, "origin: expected"},
        {{kPreamble, R"({"type":"clock-class","id":"c","frequency":9,"offset-from-origin":{"cycles":9}})"},
         "cycles: expected an integer from 0 to 8, found 9"},
        {{kPreamble, R"({"type":"data-stream-class","default-clock-class-id":"c"})"}, "clock \"c\" is not declared"},
        {{kPreamble, kStream, R"({"type":"event-record-class","data-stream-class-id":1})"}, "1 is not declared"},
        {{kPreamble, kStream, event_with(structure({})), event_with(structure({}))}, "event 0 of stream 0 is declared"},
        {{kPreamble, R"({"type":"field-class-alias","name":"a","field-class":"b"})"}, "type 'b' is not declared"},
        {{kPreamble, "{\"type\""}, "fragment 2: no JSON from byte 9 of 8 on"},
    };
    for (const auto& [fragments, expected] : cases) expect_part(error_of(fragments), expected);
}

TEST(JsonMetadata, FieldClassesThatAreWrongAreNamed) {
    const std::vector<std::pair<std::string, std::string>> cases{
        {"3", "member \"f\": expected a field class, found 3"},
        {R"({"type":"float"})", "type: expected that of a field class, found \"float\""},
        {R"({"type":"fixed-length-unsigned-integer","length":8})", "\"byte-order\" is missing"},
        {R"({"type":"fixed-length-unsigned-integer","length":65,"byte-order":"big-endian"})",
         "length: expected an integer from 1 to 64, found 65"},
        {R"({"type":"fixed-length-unsigned-integer","length":8,"byte-order":"big"})", "byte-order: expected"},
        {R"({"type":"fixed-length-boolean","length":8,"byte-order":"big-endian","bit-order":"x"})", "bit-order:"},
        {R"({"type":"fixed-length-bit-array","length":8,"byte-order":"big-endian","alignment":3})",
         "alignment: 3 is not a power of two"},
        {R"({"type":"fixed-length-signed-integer","length":8,"byte-order":"big-endian","roles":[]})",
         "unknown property \"roles\""},
        {R"({"type":"variable-length-unsigned-integer","roles":["x"]})", "roles: \"x\" is not a role"},
        {R"({"type":"variable-length-unsigned-integer","roles":["data-stream-id","data-stream-class-id"]})",
         "one field with two roles cannot be read"},
        {R"({"type":"variable-length-unsigned-integer","preferred-display-base":3})", "preferred-display-base:"},
        {R"({"type":"variable-length-unsigned-integer","mappings":{"a":[[-1,2]]}})",
         "expected a range of two unsigned"},
        {R"({"type":"variable-length-signed-integer","mappings":{"a":[[3,2]]}})", "in ascending order, found 3 and 2"},
        {R"({"type":"variable-length-signed-integer","mappings":{"a":[]}})", "\"a\": expected an array of ranges"},
        {R"({"type":"fixed-length-bit-map","length":8,"byte-order":"big-endian"})",
         "flags: expected 1 to 1024, found 0"},
        {R"({"type":"fixed-length-bit-map","length":8,"byte-order":"big-endian","flags":{"x":[[0,8]]}})",
         "flags: \"x\": there is no bit 8 among 8"},
        {R"({"type":"fixed-length-floating-point-number","length":16,"byte-order":"big-endian"})", "not 16"},
        {R"({"type":"null-terminated-string","encoding":"latin-1"})", "encoding: expected"},
        {R"({"type":"static-length-string"})", "\"length\" is missing"},
        {R"({"type":"static-length-string","length":-1})", "length: expected an integer of at least 0, found -1"},
        {R"({"type":"dynamic-length-string"})", "\"length-field-location\" is missing"},
        {R"({"type":"dynamic-length-blob","length-field-location":["n"]})", "expected a path to a field"},
        {R"({"type":"dynamic-length-blob","length-field-location":{"path":[]}})", "expected a path to a field"},
        {R"({"type":"dynamic-length-blob","length-field-location":{"path":["n",null]}})", "expected a path to a field"},
        {R"({"type":"dynamic-length-blob","length-field-location":{"path":["n"],"origin":"here"}})", "is not a scope"},
        {R"({"type":"dynamic-length-blob","length-field-location":{"path":[null,"n"],"origin":"packet-context"}})",
         "it leads out of its scope"},
        {R"({"type":"static-length-blob","length":15,"roles":["metadata-stream-uuid"]})", "a UUID has 16 bytes"},
        {R"({"type":"static-length-array","length":2})", "\"element-field-class\" is missing"},
        {R"({"type":"structure","member-classes":[{"name":"a","field-class":"b"}]})", "type 'b' is not declared"},
        {R"({"type":"variant","options":[],"selector-field-location":{"path":["n"]}})", "options: a variant needs one"},
        {R"({"type":"variant","options":[{}],"selector-field-location":{"path":["n"]}})", "option 0: "},
        {R"({"type":"optional","selector-field-location":{"path":["n"]}})", "\"field-class\" is missing"},
        {structure({{"a", kByte}, {"a", kByte}}), "two members have the name \"a\""},
    };
    for (const auto& [field_class, expected] : cases) {
        expect_part(error_of_field(field_class), expected);
        expect_part(error_of_field(field_class), "fragment 3: event-record-class: payload-field-class: member \"f\": ");
    }
}

TEST(JsonMetadata, LocationsThatLeadNowhereAreNamed) {
    const auto blob = [](const std::string& location) {
        return R"({"type":"dynamic-length-blob","length-field-location":)" + location + "}";
    };
    const auto inner = [&](const std::string& location) { return structure({{"m", kByte}, {"b", blob(location)}}); };
    EXPECT_EQ(plan_error_of_field(blob(R"({"path":["n"]})")), "");
    EXPECT_EQ(plan_error_of_field(inner(R"({"path":["m"]})")), "");
    EXPECT_EQ(plan_error_of_field(inner(R"({"path":[null,"n"]})")), "");
    EXPECT_EQ(plan_error_of_field(inner(R"({"path":[null,"f","m"]})")), "");
    EXPECT_EQ(plan_error_of_field(inner(R"({"path":["q",null,"m"]})")), "");
    EXPECT_EQ(plan_error_of_field(inner(R"({"origin":"event-record-payload","path":["f","m"]})")), "");
    expect_part(plan_error_of_field(inner(R"({"path":["n"]})")), "no field './n' before");
    expect_part(plan_error_of_field(inner(R"({"path":[null,null,"n"]})")), "no field");
    expect_part(plan_error_of_field(blob(R"({"path":["f"]})")), "length './f' is not an unsigned integer");
    expect_part(plan_error_of_field(blob(R"({"origin":"packet-context","path":["n"]})")), "no field");
    const std::string elements =
        R"({"type":"static-length-array","length":2,"element-field-class":)" + inner(R"({"path":["m"]})") + "}";
    EXPECT_EQ(plan_error_of_field(elements), "");
    const std::string by_root = R"({"type":"static-length-array","length":2,"element-field-class":)" +
                                inner(R"({"origin":"event-record-payload","path":["f","m"]})") + "}";
    EXPECT_EQ(plan_error_of_field(by_root), "");
    expect_part(plan_error_of({kPreamble, kStream,
                               event_with(structure({{"f", elements}, {"g", blob(R"({"path":["f","m"]})")}}))}),
                "no field");
    const std::string text = R"({"type":"null-terminated-string"})";
    expect_part(
        plan_error_of({kPreamble, kStream, event_with(structure({{"n", text}, {"f", blob(R"({"path":["n"]})")}}))}),
        "is not an unsigned integer");
}

TEST(JsonMetadata, RolesAreWhereTheyMeanSomething) {
    const auto with_role = [](const std::string& role) {
        return structure({{"f", R"({"type":"variable-length-unsigned-integer","roles":[")" + role + "\"]}"}});
    };
    const auto header = [](const std::string& scope) {
        return R"({"type":"data-stream-class","event-record-header-field-class":)" + scope + "}";
    };
    EXPECT_EQ(plan_error_of({kPreamble, header(with_role("event-record-class-id"))}), "");
    expect_part(plan_error_of({kPreamble, header(with_role("packet-total-length"))}),
                "a role that it cannot have there");
    expect_part(plan_error_of({kPreamble, header(with_role("default-clock-timestamp"))}), "stream 0 has no clock");
    expect_part(plan_error_of({kPreamble, kStream, event_with(with_role("event-record-class-id"))}),
                "a role that it cannot have there");
}

TEST(JsonMetadata, NamesMeanNothing) {
    const auto trace = parse_json_metadata(
        text_of({kPreamble, R"({"type":"data-stream-class","packet-context-field-class":)" +
                                structure({{"packet_size", kByte}, {"timestamp_begin", kByte}}) + "}"}));
    const auto plan = make_decode_plan(trace.value(), trace->streams.front());
    for (const PlanNode& node : plan.value().nodes) {
        EXPECT_EQ(node.role, FieldRole::kNone);
        EXPECT_TRUE(node.is_shown);
    }
}

TEST(JsonMetadata, HostileTextTakesBoundedMemory) {
    // An alias of ten of the alias before, and so on.
    std::vector<std::string> fragments{kPreamble};
    std::string last = kByte;
    for (int level = 0; level < 12; ++level) {
        std::vector<std::pair<std::string, std::string>> members;
        for (int i = 0; i < 10; ++i) members.emplace_back(fmt::format("m{}", i), last);
        fragments.push_back(
            fmt::format(R"({{"type":"field-class-alias","name":"a{}","field-class":{}}})", level, structure(members)));
        last = fmt::format("\"a{}\"", level);
    }
    expect_part(error_of(fragments), "the types take more than 64 MiB");

    std::string deep = kByte;
    for (int level = 0; level < 100; ++level)
        deep = R"({"type":"static-length-array","length":1,"element-field-class":)" + deep + "}";
    expect_part(error_of_field(deep), "nested deeper than 64 levels");
    expect_part(error_of({kPreamble, std::string(1'000'000, '[')}), "fragment 2: JSON is nested deeper than 512");
    expect_part(error_of({kPreamble, std::string(5U << 20U, ' ') + "{}"}), "fragment 2: it has 5242883 bytes");
}

// Attributes mean nothing to a reader, and may be deep.
TEST(JsonMetadata, NothingIsCopiedByRecursion) {
    const std::string deep = std::string(500, '[') + std::string(500, ']');
    const std::string payload = R"({"type":"structure","member-classes":[{"name":"f","field-class":)" + kByte +
                                R"(,"attributes":{"x":)" + deep + "}}]}";
    EXPECT_EQ(error_of({kPreamble, kStream, event_with(payload)}), "");
}

TEST(JsonMetadata, ChoicesCountAsTheyAreCopied) {
    std::string ranges = "[0,0]";
    for (int i = 1; i < 3000; ++i) ranges += fmt::format(",[{},{}]", i, i);
    const std::string optional = R"({"type":"optional","selector-field-location":{"path":["n"]},"field-class":)" +
                                 kByte + R"(,"selector-field-ranges":[)" + ranges + "]}";
    EXPECT_EQ(plan_error_of_field(optional), "");
    std::vector<std::string> fragments{kPreamble,
                                       R"({"type":"field-class-alias","name":"a","field-class":)" + optional + "}"};
    std::vector<std::pair<std::string, std::string>> members;
    for (int i = 0; i < 2000; ++i) members.emplace_back(fmt::format("m{}", i), "\"a\"");
    fragments.push_back(R"({"type":"field-class-alias","name":"b","field-class":)" + structure(members) + "}");
    expect_part(error_of(fragments), "the types take more than 64 MiB");
}

TEST(JsonMetadata, SelectorsAndTheirRangesAreOfOneKind) {
    const std::string boolean = R"({"type":"fixed-length-boolean","length":8,"byte-order":"little-endian"})";
    const std::string is_signed = R"({"type":"variable-length-signed-integer"})";
    const auto error_with = [](const std::string& selector, const std::string& ranges) {
        const std::string optional = R"({"type":"optional","selector-field-location":{"path":["n"]},"field-class":)" +
                                     kByte + (ranges.empty() ? "" : R"(,"selector-field-ranges":)" + ranges) + "}";
        return plan_error_of({kPreamble, kStream, event_with(structure({{"n", selector}, {"f", optional}}))});
    };
    EXPECT_EQ(error_with(boolean, ""), "");
    EXPECT_EQ(error_with(kByte, "[[0,18446744073709551615]]"), "");
    EXPECT_EQ(error_with(is_signed, "[[-9223372036854775808,-1],[0,9223372036854775807]]"), "");
    expect_part(error_with(boolean, "[[1,1]]"), "selector './n' is not an integer");
    expect_part(error_with(kByte, ""), "selector './n' is not a boolean");
    expect_part(error_with(kByte, "[[-1,5]]"), "a range of the selector './n' is of signed integers");
    expect_part(error_with(kByte, "[[-5,-1]]"), "is of signed integers");
    expect_part(error_with(is_signed, "[[0,9223372036854775808]]"), "is of unsigned integers");
    expect_part(error_with(is_signed, "[[9223372036854775808,9223372036854775809]]"), "is of unsigned integers");
    expect_part(error_with(kByte, "[[-1,5],[0,9223372036854775808]]"), "expected a range of two unsigned integers");
    expect_part(error_with(kByte, "[[0,5],[5,9]]"), "two ranges of the selector './n' overlap");
}

TEST(JsonMetadata, NamesStayInTheirLine) {
    const auto trace =
        parse_json_metadata(text_of({kPreamble, kStream, event_with(structure({{R"(a\n\u001bb)", kByte}}))}));
    EXPECT_EQ(trace.value().streams.front().events.front().fields->members.front().name, R"(a\n\x1bb)");
}

}  // namespace
}  // namespace leat::ctf
