#include "ctf/decode/header_form.hpp"

#include <gtest/gtest.h>

#include <string>

#include "ctf/decode/decode_plan.hpp"
#include "ctf/tsdl/tsdl_parser.hpp"

namespace leat::ctf {
namespace {

const std::string kTypes =
    "clock { name = m; };"
    "typealias integer { size = 16; align = 8; } := u16;"
    "typealias integer { size = 32; align = 8; } := u32;"
    "typealias integer { size = 16; align = 8; map = clock.m.value; } := ts16;"
    "typealias integer { size = 27; align = 1; map = clock.m.value; } := ts27;"
    "typealias integer { size = 64; align = 8; map = clock.m.value; } := ts64;";

// "id AT+SIZE time AT+SIZE of SIZE, LOWEST to HIGHEST"
std::string form_of(const std::string& header, const std::string& order = "le") {
    const auto trace_class =
        parse_tsdl(kTypes + "trace { major = 1; minor = 8; byte_order = " + order +
                   "; }; stream { event.header := " + header + "; }; event { name = e; id = 0; };");
    if (!trace_class) return trace_class.error().message;
    const auto plan = make_decode_plan(*trace_class, trace_class->streams.front());
    if (!plan) return plan.error().message;
    const HeaderForm& form = plan->header_form;
    if (!form.is_known) return "unknown";
    const std::string ids =
        form.highest_id == UINT64_MAX ? "" : fmt::format(", {} to {}", form.lowest_id, form.highest_id);
    return fmt::format("id {}+{} time {}+{} of {}{}", form.id_offset, form.id_size, form.time_offset, form.time_size,
                       form.size, ids);
}

TEST(HeaderForm, Compact) {
    EXPECT_EQ(
        form_of("struct { enum : integer { size = 5; align = 1; } { compact = 0 ... 30, extended = 31 } id;"
                "variant <id> { struct { ts27 timestamp; } compact; struct { u32 id; ts64 timestamp; } extended; } v;"
                "} align(8)"),
        "id 0+5 time 5+27 of 32, 0 to 30");
}

TEST(HeaderForm, OfTwoIntegers) {
    EXPECT_EQ(form_of("struct { u16 id; ts16 timestamp; }"), "id 0+16 time 16+16 of 32");
    EXPECT_EQ(form_of("struct { u16 id; }"), "id 0+16 time 0+0 of 16");
}

TEST(HeaderForm, WhatDoesNotFitIsUnknown) {
    EXPECT_EQ(form_of("struct { u32 id; ts64 timestamp; }"), "unknown");
    EXPECT_EQ(form_of("struct { ts16 timestamp; }"), "unknown");
    EXPECT_EQ(form_of("struct { u16 id; ts16 timestamp; }", "be"), "unknown");
    EXPECT_EQ(form_of("struct { integer { size = 5; align = 1; } id; }"), "unknown");
}

TEST(HeaderForm, NothingOfItLiesBehindWhatIsRead) {
    EXPECT_EQ(form_of("struct { u16 id; ts16 timestamp; struct { } align(64) pad; }"), "id 0+16 time 16+16 of 64");
    EXPECT_EQ(form_of("struct { u16 id; ts16 timestamp; struct { } align(128) pad; }"), "unknown");
    EXPECT_EQ(form_of("struct { ts16 id; }"), "unknown") << "a time that is an id, too";
}

// The long form comes first: it would be taken for the usual one.
TEST(HeaderForm, LongFormFirst) {
    EXPECT_EQ(
        form_of("struct { enum : u16 { extended = 7, compact = 0 ... 6 } id;"
                "variant <id> { struct { u32 id; ts64 timestamp; } extended; struct { ts16 timestamp; } compact; } v;"
                "} align(8)"),
        "unknown");
}

}  // namespace
}  // namespace leat::ctf
