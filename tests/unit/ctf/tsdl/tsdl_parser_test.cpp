#include "ctf/tsdl/tsdl_parser.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <map>
#include <optional>
#include <string>

#include "ctf/model/type_scopes.hpp"
#include "ring/sanitizers.hpp"
#include "support/patience.hpp"

namespace leat::ctf {
namespace {

const FieldClass kByte = IntegerClass{.size = 8};

const std::string kTypes =
    "typealias integer { size = 8; } := uint8_t;\n"
    "typealias integer { size = 64; } := unsigned long;\n";

std::string event_of(const std::string& fields) { return "event { name = e; fields := struct { " + fields + " }; };"; }

// The class of the first field of an event with these fields.
FieldClass field_of(const std::string& fields) {
    const auto trace = parse_tsdl(kTypes + event_of(fields));
    if (!trace) ADD_FAILURE() << fields << ": " << trace.error().message;
    return trace ? trace->streams.at(0).events.at(0).fields->members.at(0).field_class : StringClass{};
}

std::string error_of(const std::string& text) {
    const auto trace = parse_tsdl(kTypes + text);
    return trace ? "accepted" : trace.error().message;
}

std::string error_of_field(const std::string& fields) { return error_of(event_of(fields)); }

TEST(TsdlParser, IntegerHasItsDefaults) {
    EXPECT_EQ(field_of("integer { size = 16; } x;"), (IntegerClass{.size = 16, .alignment = 8}));
    EXPECT_EQ(field_of("integer { size = 5; } x;"), (IntegerClass{.size = 5, .alignment = 1}));
}

TEST(TsdlParser, IntegerHasItsAttributes) {
    EXPECT_EQ(field_of("integer { signed = TRUE; size = 0x20; align = 32; byte_order = network; base = x; "
                       "encoding = UTF8; map = clock.mono.value; unknown = 3; } x;"),
              (IntegerClass{.size = 32,
                            .alignment = 32,
                            .is_signed = true,
                            .base = DisplayBase::kHexadecimal,
                            .byte_order = ByteOrder::kBigEndian,
                            .encoding = Encoding::kUtf8,
                            .clock = "mono"}));
}

TEST(TsdlParser, ByteOrderOfTheTraceHoldsForTypesBeforeIt) {
    const auto trace = parse_tsdl(kTypes + event_of("uint8_t a;") + "env { x = 1; }; trace { byte_order = be; };");
    ASSERT_TRUE(trace) << trace.error().message;
    EXPECT_EQ(trace->streams[0].events[0].fields->members[0].field_class,
              (IntegerClass{.size = 8, .byte_order = ByteOrder::kBigEndian}));
}

TEST(TsdlParser, FloatsOf32And64Bits) {
    EXPECT_EQ(field_of("floating_point { exp_dig = 8; mant_dig = 24; align = 8; } f;"), (FloatClass{.size = 32}));
    EXPECT_EQ(field_of("floating_point { exp_dig = 11; mant_dig = 53; align = 8; } f;"), (FloatClass{.size = 64}));
    EXPECT_NE(error_of_field("floating_point { exp_dig = 5; mant_dig = 11; } f;"), "accepted");
}

TEST(TsdlParser, EnumFillsInItsValues) {
    const FieldClass expected =
        EnumClass{IntegerClass{.size = 8},
                  {{"A", 0, 0}, {"b c", 5, 9}, {"D", 10, 10}, {"E", ~std::uint64_t{2}, ~std::uint64_t{2}}}};
    EXPECT_EQ(field_of("enum : uint8_t { A, \"b c\" = 5 ... 9, D, E = -3, } e;"), expected);
}

TEST(TsdlParser, EnumWithoutContainerIsAnInt) {
    EXPECT_NE(error_of_field("enum { A } e;"), "accepted");
    EXPECT_TRUE(parse_tsdl("typealias integer { size = 32; signed = true; } := int;" + event_of("enum { A } e;")));
}

TEST(TsdlParser, EnumRangeBackwardsIsRefused) {
    EXPECT_NE(error_of_field("enum : uint8_t { A = 5 ... 2 } e;"), "accepted");
}

TEST(TsdlParser, NamedTypesAreKnownInTheirScopeOnly) {
    EXPECT_EQ(error_of("struct point { uint8_t x; }; " + event_of("struct point p;")), "accepted");
    EXPECT_NE(error_of("event { name = a; fields := struct { typedef uint8_t t; t x; }; }; " + event_of("t y;")),
              "accepted");
}

TEST(TsdlParser, InnerTypeHidesOuterOne) {
    EXPECT_EQ(field_of("typealias string := uint8_t; uint8_t s;"), StringClass{});
}

TEST(TsdlParser, TypeOfSeveralWords) { EXPECT_EQ(field_of("unsigned long x;"), IntegerClass{.size = 64}); }

TEST(TsdlParser, PointerIsShownAsAddress) {
    EXPECT_EQ(field_of("typealias unsigned long := void *; void *p;"),
              (IntegerClass{.size = 64, .base = DisplayBase::kHexadecimal}));
}

TEST(TsdlParser, TypedefTakesDimensions) {
    EXPECT_EQ(field_of("typedef uint8_t pair[2], byte; pair p[3];"), (ArrayClass{FieldClass(ArrayClass{kByte, 2}), 3}));
}

TEST(TsdlParser, LastBracketIsTheInnermost) {
    EXPECT_EQ(field_of("uint8_t x[2][event.fields.n];"),
              (ArrayClass{FieldClass(SequenceClass{kByte, {"event", "fields", "n"}}), 2}));
}

TEST(TsdlParser, StructWithAlignment) {
    const FieldClass expected = StructClass{{{"a", IntegerClass{.size = 8}}, {"b", IntegerClass{.size = 8}}}, 32};
    EXPECT_EQ(field_of("struct { uint8_t a, b; } align(32) s;"), expected);
}

TEST(TsdlParser, VariantMayGetItsTagWhereItIsUsed) {
    const FieldClass expected = VariantClass{{"tag"}, {{"a", IntegerClass{.size = 8}}, {"s", StringClass{}}}};
    EXPECT_EQ(field_of("variant <tag> { uint8_t a; string s; } v;"), expected);
    const auto trace = parse_tsdl(kTypes + "variant v { uint8_t a; string s; };" + event_of("variant v <tag> x;"));
    ASSERT_TRUE(trace) << trace.error().message;
    EXPECT_EQ(trace->streams[0].events[0].fields->members[0].field_class, expected);
}

TEST(TsdlParser, AllBlocksOfATrace) {
    const auto trace = parse_tsdl(
        "/* CTF 1.8 */ // a comment\n"
        "trace { major = 1; minor = 8; uuid = \"00112233-4455-6677-8899-aabbccddeeff\"; byte_order = le;\n"
        "  packet.header := struct { integer { size = 32; } magic; }; };\n"
        "env { host = \"a\\\"b\\n\\x41\\101\"; pid = -3; };\n"
        "clock { name = mono; freq = 1000; precision = 2; offset_s = -5; offset = 18446744073709551615; absolute = "
        "true; };\n"
        "callsite { name = x; file = \"y.c\"; line = 3; };\n"
        "event { name = \"a:b\"; id = 7; stream_id = 2; loglevel = 6; model.emf.uri = \"http://x\"; };\n"
        "stream { id = 2; event.header := struct { }; event.context := struct { }; packet.context := struct { }; };\n");
    ASSERT_TRUE(trace) << trace.error().message;
    EXPECT_EQ(to_string(*trace->uuid), "00112233-4455-6677-8899-aabbccddeeff");
    EXPECT_EQ(trace->packet_header->members.size(), 1U);
    EXPECT_EQ(*environment_text(*trace, "host"), "a\"b\nAA");
    EXPECT_EQ(*environment_number(*trace, "pid"), -3);
    EXPECT_EQ(trace->clocks.at(0), (ClockClass{.name = "mono",
                                               .frequency = 1000,
                                               .precision = 2,
                                               .offset_s = -5,
                                               .offset = ~std::uint64_t{0},
                                               .is_absolute = true}));
    const EventClass& event = trace->streams.at(0).events.at(0);
    EXPECT_EQ(event, (EventClass{.id = 7, .name = "a:b", .log_level = 6, .model_uri = "http://x"}));
}

TEST(TsdlParser, WordsWithoutQuotesAreTexts) {
    const auto trace =
        parse_tsdl("env { domain = kernel; host = a.b; way = a->b.c; }; event { name = sched.switch; };");
    ASSERT_TRUE(trace) << trace.error().message;
    EXPECT_EQ(*environment_text(*trace, "domain"), "kernel");
    EXPECT_EQ(*environment_text(*trace, "host"), "a.b");
    EXPECT_EQ(*environment_text(*trace, "way"), "a->b.c");
    EXPECT_EQ(trace->streams.at(0).events.at(0).name, "sched.switch");
    EXPECT_NE(error_of("env { x = a.; };"), "accepted");
    EXPECT_NE(error_of("env { x = \"a\".b; };"), "accepted");
    EXPECT_NE(error_of("env { x = -a; };"), "accepted");
}

TEST(TsdlParser, TextMayHaveSeveralLines) {
    const auto trace = parse_tsdl("env { x = \"a\nb\"; };");
    ASSERT_TRUE(trace) << trace.error().message;
    EXPECT_EQ(*environment_text(*trace, "x"), "a\nb");
    EXPECT_EQ(error_of("env { x = \"a\nb\"; }; nonsense;"),
              "line 4: trace, env, clock, stream, event or a type expected, found 'nonsense'");
}

TEST(TsdlParser, LogLevelsAreThoseThatHaveNames) {
    const auto level_of = [](const std::string& level) {
        const auto trace = parse_tsdl("event { name = e; loglevel = " + level + "; };");
        return trace ? trace->streams.at(0).events.at(0).log_level : std::optional<std::int64_t>(-2);
    };
    EXPECT_EQ(level_of("14"), 14);
    EXPECT_EQ(level_of("15"), std::nullopt);
    EXPECT_EQ(level_of("18446744073709551615"), std::nullopt);
    EXPECT_NE(error_of("event { name = e; loglevel = -1; };"), "accepted");
}

TEST(TsdlParser, LengthMayBeInTheEnvironment) {
    const auto length_of = [](const std::string& environment) -> std::string {
        const auto trace = parse_tsdl(kTypes + environment + event_of("uint8_t x[env.n][2];"));
        if (!trace) return trace.error().message;
        const FieldClass& field = trace->streams.at(0).events.at(0).fields->members.at(0).field_class;
        return field == FieldClass(ArrayClass{FieldClass(ArrayClass{kByte, 2}), 3}) ? "3" : "something else";
    };
    EXPECT_EQ(length_of("env { m = 4; n = 3; };"), "3");
    EXPECT_EQ(length_of("env { n = -3; };"), "line 3: env.n is no length");
    EXPECT_EQ(length_of("env { n = \"3\"; };"), "line 3: env.n is no length");
    EXPECT_EQ(length_of(""), "something else");  // the path of a field
}

TEST(TsdlParser, AliasTakesDimensions) {
    const auto trace = parse_tsdl(kTypes + "typealias uint8_t [2][3] := pairs;" + event_of("pairs x[4];"));
    ASSERT_TRUE(trace) << trace.error().message;
    EXPECT_EQ(trace->streams.at(0).events.at(0).fields->members.at(0).field_class,
              (ArrayClass{FieldClass(ArrayClass{FieldClass(ArrayClass{kByte, 3}), 2}), 4}));
}

TEST(TsdlParser, ErrorsNameLineExpectationAndFinding) {
    EXPECT_EQ(error_of("event { name = e }"), "line 3: ';' expected, found '}'");
    EXPECT_EQ(error_of("\n\nnonsense"),
              "line 5: trace, env, clock, stream, event or a type expected, found 'nonsense'");
    EXPECT_EQ(error_of("event { name = e; }"), "line 3: ';' expected, found the end");
}

// Larger alignments would overflow the sums that they are part of.
TEST(TsdlParser, AlignmentsAreBounded) {
    EXPECT_EQ(error_of_field("integer { size = 8; align = 0x100000; } x;"), "accepted");
    EXPECT_NE(error_of_field("integer { size = 8; align = 0x200000; } x;"), "accepted");
    EXPECT_NE(error_of_field("integer { size = 8; align = 0x80000000; } x;"), "accepted");
    EXPECT_NE(error_of_field("integer { size = 8; align = 0x8000000000000000; } x;"), "accepted");
    EXPECT_NE(error_of_field("struct { uint8_t a; } align(0x80000000) s;"), "accepted");
    EXPECT_NE(error_of_field("floating_point { exp_dig = 8; mant_dig = 24; align = 0x80000000; } f;"), "accepted");
}

TEST(TsdlParser, WhatOtherReadersRefuseIsRefused) {
    EXPECT_NE(error_of_field("uint8_t event;"), "accepted");
    EXPECT_NE(error_of_field("uint8_t x; string x;"), "accepted");
    EXPECT_NE(error_of_field("integer { size = 0; } x;"), "accepted");
    EXPECT_NE(error_of_field("integer { size = 65; } x;"), "accepted");
    EXPECT_NE(error_of_field("integer { size = 8; align = 3; } x;"), "accepted");
    EXPECT_NE(error_of_field("integer { align = 8; } x;"), "accepted");
    EXPECT_NE(error_of_field("missing_t x;"), "accepted");
    EXPECT_NE(error_of_field("uint8_t x : 3;"), "accepted");
    EXPECT_NE(error_of("clock { name = a; offset = -1; };"), "accepted");
    EXPECT_NE(error_of("clock { name = a; freq = 0; };"), "accepted");
    EXPECT_NE(error_of("trace { major = 2; };"), "accepted");
    EXPECT_NE(error_of("event { id = 1; };"), "accepted");
    EXPECT_NE(error_of("event { name = a; id = 1; }; event { name = b; id = 1; };"), "accepted");
    EXPECT_NE(error_of("stream { id = 1; }; event { name = b; stream_id = 2; };"), "accepted");
    EXPECT_NE(error_of("stream { id = 1; }; stream { id = 1; };"), "accepted");
    EXPECT_NE(error_of("/* no end"), "accepted");
    EXPECT_NE(error_of("env { x = \"no end"), "accepted");
    EXPECT_NE(error_of("env { x = \"\\q\"; };"), "accepted");
    EXPECT_NE(error_of("env { x = 99999999999999999999; };"), "accepted");
    EXPECT_NE(error_of("event { name = e; fields := uint8_t; };"), "accepted");
    EXPECT_NE(error_of(std::string("\0", 1)), "accepted");
}

TEST(TsdlParser, HugeArrayIsJustANumber) {
    EXPECT_EQ(field_of("uint8_t x[1152921504606846976];"), (ArrayClass{kByte, std::uint64_t{1} << 60U}));
}

TEST(TsdlParser, DeepNestingEndsInAnError) {
    std::string open;
    std::string close;
    std::string brackets;
    for (int i = 0; i < 100'000; ++i) {
        open += "struct { ";
        close += "} a; ";
        brackets += "[1]";
    }
    EXPECT_NE(error_of_field(open + close), "accepted");
    EXPECT_NE(error_of_field("uint8_t x" + brackets + ";"), "accepted");
}

// Each bracket is a level, at whatever level of structs it is.
TEST(TsdlParser, DepthByBracketsAroundStructsEndsInAnError) {
    const auto nested = [](unsigned structs, unsigned dimensions) {
        std::string text = "uint8_t x;";
        for (unsigned i = 0; i < structs; ++i) {
            text = "struct { " + text + "} a";
            for (unsigned j = 0; j < dimensions; ++j) text += "[1]";
            text += ";";
        }
        return text;
    };
    EXPECT_EQ(error_of_field(nested(3, 15)), "accepted");
    EXPECT_NE(error_of_field(nested(3, 30)).find("fewer dimensions"), std::string::npos);
    EXPECT_NE(error_of_field(nested(50, 10)).find("fewer dimensions"), std::string::npos);
    std::string named = "typedef uint8_t t0;";
    for (int i = 1; i < 4; ++i)
        named += fmt::format("typedef t{} t{}[1][1][1][1][1][1][1][1][1][1][1][1][1][1][1][1][1][1][1][1];", i - 1, i);
    EXPECT_EQ(error_of(named), "accepted");
    EXPECT_NE(error_of(named + "typedef t3 t4[1][1][1][1][1];").find("fewer dimensions"), std::string::npos);
}

TEST(TsdlParser, DepthByNameEndsInAnError) {
    std::string text = "struct s0 { uint8_t a; };";
    for (unsigned i = 1; i < 2 * kMaxFieldDepth; ++i) text += fmt::format("struct s{} {{ struct s{} a; }};", i, i - 1);
    EXPECT_NE(error_of(text).find("deeper"), std::string::npos);
}

TEST(TsdlParser, DoublingByNameEndsInAnError) {
    std::string text = "struct s0 { uint8_t a; };";
    for (unsigned i = 1; i < 60; ++i) text += fmt::format("struct s{} {{ struct s{} a, b; }};", i, i - 1);
    EXPECT_NE(error_of(text).find("MiB"), std::string::npos);
}

// CPU time of the calling thread.
double parse_seconds(const std::string& text) {
    const auto now = [] {
        timespec time{};
        ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
        return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
    };
    const double begin = now();
    const auto trace = parse_tsdl(text);
    const double end = now();
    EXPECT_TRUE(trace) << trace.error().message;
    return end - begin;
}

using MakeText = std::string (*)(std::size_t count);

std::string many(std::size_t count, const char* format) {
    std::string text;
    for (std::size_t i = 0; i < count; ++i) text += fmt::format(fmt::runtime(format), i);
    return text;
}

// Eight times the text takes eight times as long, and not sixty-four times. Others on this machine can only make a
// parser look slower than it is: its fastest runs count, and there are more of them until these say that all is well.
TEST(TsdlParser, TimeGrowsWithTheText) {
    const std::map<std::string, MakeText> kinds{
        {"streams", [](std::size_t n) { return many(n, "stream {{ id = {}; }};"); }},
        {"clocks", [](std::size_t n) { return many(n, "clock {{ name = c{}; }};"); }},
        {"events", [](std::size_t n) { return many(n, "event {{ id = {}; name = e; }};"); }},
        {"early events",
         [](std::size_t n) {
             return many(n, "event {{ stream_id = {}; name = e; }};") + many(n, "stream {{ id = {}; }};");
         }},
        {"aliases", [](std::size_t n) { return many(n, "typealias integer {{ size = 8; }} := t{};"); }},
        {"fields", [](std::size_t n) { return event_of(many(n, "uint8_t f{};")); }},
        {"declarators", [](std::size_t n) { return event_of("uint8_t z" + many(n, ", f{}") + ";"); }},
        {"labels", [](std::size_t n) { return event_of("enum : uint8_t { " + many(n, "l{},") + "} e;"); }},
        {"overlapping labels",
         [](std::size_t n) { return event_of("enum : uint8_t { " + many(n / 8, "l{0} = {0} ... 100000,") + "} e;"); }},
        {"unknown attributes", [](std::size_t n) { return "event { name = e; " + many(n, "x{} = 1;") + "};"; }},
        {"lines", [](std::size_t n) { return many(n, "/*\n*/ // {}\n\n"); }},
    };
#if defined(LEAT_ADDRESS_SANITIZER) || defined(LEAT_THREAD_SANITIZER)
    constexpr std::size_t kFew = 500;  // sanitizers take minutes here, and look for other errors
#else
    constexpr std::size_t kFew = 5'000;
#endif
    for (const auto& [kind, make] : kinds) {
        const std::string few_text = kTypes + make(kFew);
        const std::string many_text = kTypes + make(8 * kFew);
        double few = 1e9;
        double many = 1e9;
        EXPECT_TRUE(test::wait_until([&] {
            for (int i = 0; i < 3; ++i) few = std::min(few, parse_seconds(few_text));
            many = std::min(many, parse_seconds(many_text));
            return many < 24 * few;
        })) << kind
            << ": " << few << " s and " << many << " s";
    }
}

TEST(TsdlParser, EnvironmentIsBounded) {
    EXPECT_EQ(error_of("env { " + many(4096, "x{} = 1; ") + "};"), "accepted");
    EXPECT_NE(error_of("env { " + many(4097, "x{} = 1; ") + "};").find("more than 4096 entries"), std::string::npos);
}

TEST(TsdlParser, TraceIsDeclaredOnce) {
    EXPECT_EQ(error_of("trace { major = 1; };\ntrace { major = 1; };"), "line 4: the trace is declared twice");
}

const std::string kGrowing = kTypes +
                             "/* ; } */ event { stream_id = 1; id = 9; name = early; };\n"
                             "trace { byte_order = be; packet.header := struct { uint8_t stream_id; }; };\n"
                             "env { a = \"};\"; };\n"
                             "clock { name = c; };\n"
                             "stream { id = 0; };\n"
                             "event { stream_id = 0; id = 1; name = a; fields := struct { uint8_t x; }; };\n"
                             "stream { id = 1; };\n"
                             "typealias integer { size = 3; } := late;\n"
                             "event { stream_id = 1; id = 1; name = b; fields := struct { late x; }; };\n";

TEST(TsdlReader, TextThatGrowsIsReadAsIfItWereWhole) {
    const auto whole = parse_tsdl(kGrowing);
    ASSERT_TRUE(whole) << whole.error().message;
    for (const std::size_t step : {std::size_t{1}, std::size_t{2}, std::size_t{3}, std::size_t{100}}) {
        TsdlReader reader;
        std::size_t end = 0;
        for (std::size_t i = 1; end < kGrowing.size(); ++i) {
            end = kGrowing.find(";\n", end) == std::string::npos ? kGrowing.size() : kGrowing.find(";\n", end) + 2;
            if (i % step == 0 || end == kGrowing.size()) {
                const auto read = reader.read(std::string_view(kGrowing).substr(0, end));
                ASSERT_TRUE(read) << read.error().message;
            }
        }
        ASSERT_NE(reader.trace_class(), nullptr);
        EXPECT_EQ(*reader.trace_class(), *whole) << step;
    }
}

TEST(TsdlReader, ClassesStayWhereTheyAre) {
    std::string text =
        "trace { major = 1; }; clock { name = c; }; stream { id = 0; };"
        "event { stream_id = 0; id = 0; name = first; fields := struct { string s; }; };";
    TsdlReader reader;
    ASSERT_TRUE(reader.read(text));
    const TraceClass* const trace = reader.trace_class();
    const StreamClass* const stream = &trace->streams[0];
    const EventClass* const event = &stream->events[0];
    const ClockClass* const clock = &trace->clocks[0];
    for (int i = 1; i < 1000; ++i) {
        text += fmt::format(
            "clock {{ name = c{0}; }}; stream {{ id = {0}; }};"
            "event {{ stream_id = 0; id = {0}; name = e; }};",
            i);
        ASSERT_TRUE(reader.read(text));
    }
    EXPECT_EQ(reader.trace_class(), trace);
    EXPECT_EQ(&trace->streams[0], stream);
    EXPECT_EQ(&stream->events[0], event);
    EXPECT_EQ(&trace->clocks[0], clock);
    EXPECT_EQ(stream->events.size(), 1000U);
    EXPECT_EQ(event->name, "first");
}

TEST(TsdlReader, ErrorStaysAndWhatWasReadRemains) {
    std::string text = "trace { major = 1; };\nstream { id = 0; };\nevent { stream_id = 0; id = 0; name = a; };\n";
    TsdlReader reader;
    ASSERT_TRUE(reader.read(text));
    text += "event { stream_id = 0; id = 0; name = again; };\n";
    EXPECT_EQ(reader.read(text).error().message, "line 4: event id 0 is declared twice");
    text += "event { stream_id = 0; id = 1; name = more; };\n";
    EXPECT_EQ(reader.read(text).error().message, "line 4: event id 0 is declared twice");
    EXPECT_EQ(reader.trace_class()->streams[0].events.size(), 1U);
}

}  // namespace
}  // namespace leat::ctf
