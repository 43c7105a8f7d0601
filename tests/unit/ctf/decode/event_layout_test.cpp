#include "ctf/decode/event_layout.hpp"

#include <gtest/gtest.h>

#include <string>

#include "ctf/decode/decode_plan.hpp"
#include "ctf/tsdl/tsdl_parser.hpp"

namespace leat::ctf {
namespace {

const std::string kTypes =
    "clock { name = m; };"
    "typealias integer { size = 8; align = 8; } := u8;"
    "typealias integer { size = 32; align = 8; } := u32;"
    "typealias integer { size = 32; align = 32; } := aligned;"
    "typealias integer { size = 3; align = 1; } := bits;"
    "typealias integer { size = 8; align = 8; encoding = UTF8; } := char;"
    "typealias integer { size = 32; align = 8; map = clock.m.value; } := ts32;";

std::string text_of(const EventLayout& layout, const LayoutStep& step) {
    switch (step.op) {
        case LayoutStep::Op::kRun: {
            std::string text = fmt::format("run of {} at {}:", step.size, step.alignment);
            for (std::uint32_t i = 0; i < step.field_count; ++i)
                text += fmt::format(" {}", layout.fields[step.first_field + i].offset);
            return text + (step.kept_count != 0 ? " kept" : "");
        }
        case LayoutStep::Op::kString:
            return "string";
        case LayoutStep::Op::kElements:
            return fmt::format("elements of {}", step.size);
        case LayoutStep::Op::kNode:
            return "node";
    }
    return {};
}

// The layout of an event with these fields, in a stream with this context.
std::string layout_of(const std::string& fields, const std::string& rest = {}) {
    const auto trace_class = parse_tsdl(kTypes + "trace { major = 1; minor = 8; byte_order = le; };" + rest +
                                        "event { name = e; fields := struct { " + fields + " }; };");
    if (!trace_class) return trace_class.error().message;
    const auto plan = make_decode_plan(*trace_class, trace_class->streams.front());
    if (!plan) return plan.error().message;
    const EventLayout& layout = plan->events.front().layout;
    std::string text = layout.is_for_decoder ? "for the decoder" : "";
    for (const LayoutStep& step : layout.steps) text += (text.empty() ? "" : ", ") + text_of(layout, step);
    return text;
}

TEST(EventLayout, FieldsOfFixedSizeAreOneRun) {
    EXPECT_EQ(layout_of("u8 a; u32 b; struct { u8 c; u32 d[3]; } s; char text[5]; u8 e;"),
              "run of 192 at 8: 0 8 40 48 144 184");
}

TEST(EventLayout, WhatHasNoFixedSizeEndsARun) {
    EXPECT_EQ(layout_of("u8 a; string s; u8 n; u32 list[n]; u8 b;"),
              "run of 8 at 8: 0, string, run of 8 at 8: 0 kept, elements of 32, run of 8 at 8: 0");
}

TEST(EventLayout, PaddingCountsFromTheAlignmentOfTheBegin) {
    EXPECT_EQ(layout_of("u8 a; aligned b;"), "run of 64 at 32: 0 32");
    EXPECT_EQ(layout_of("string s; u8 a; aligned b; u8 c;"),
              "run of 0 at 32:, string, run of 8 at 8: 0, run of 40 at 32: 0 32");
}

TEST(EventLayout, BitsNeedNotBeginAtAByte) {
    EXPECT_EQ(layout_of("bits a; bits b[3];"), "run of 12 at 1: 0 3");
    EXPECT_EQ(layout_of("bits n; bits list[n]; bits b;"), "run of 3 at 1: 0 kept, elements of 3, run of 3 at 1: 0");
}

TEST(EventLayout, OtherFieldsAreForTheDecoder) {
    const std::string variant = "enum : u8 { A, B } t; variant <t> { u8 A; string B; } v;";
    EXPECT_EQ(layout_of(variant + "u8 b;"), "run of 8 at 8: 0 kept, node, run of 8 at 8: 0");
    EXPECT_EQ(layout_of("string list[2];"), "run of 0 at 8:, node");
    EXPECT_EQ(layout_of("struct { u8 a; } list[2];"), "run of 0 at 8:, node");
    EXPECT_EQ(layout_of("u8 list[1000000000];"), "run of 0 at 8:, node");
}

TEST(EventLayout, EventsThatNeedMoreThanTheirOwnBytesAreForTheDecoder) {
    const std::string stream = "stream { packet.context := struct { u8 n; }; };";
    EXPECT_TRUE(layout_of("u8 list[stream.packet.context.n];", stream).starts_with("for the decoder"));
    EXPECT_TRUE(layout_of("ts32 time;").starts_with("for the decoder"));
    const std::string context = "stream { event.context := struct { u8 n; }; };";
    EXPECT_TRUE(layout_of("u8 list[stream.event.context.n];", context).starts_with("for the decoder"));
}

}  // namespace
}  // namespace leat::ctf
