// The parser reads the writer's text as the same classes.
#include <gtest/gtest.h>

#include "ctf/record/packet_header.hpp"
#include "ctf/tsdl/tsdl_parser.hpp"
#include "ctf/tsdl/tsdl_writer.hpp"

namespace leat::ctf {
namespace {

TraceClass trace_with_every_field_class() {
    const IntegerClass length{.size = 16};
    const FieldClass character = IntegerClass{.size = 8, .encoding = Encoding::kUtf8};
    const EnumClass colour{{.size = 8, .is_signed = true},
                           {{"RED", 0, 0}, {"dark \"blue\"", 5, 9}, {"minus", ~0ULL, ~0ULL}}};
    EventClass event{.id = 3, .name = "demo:\"all\"", .log_level = 6};
    event.fields = StructClass{{
        {"_hex", IntegerClass{.size = 32, .base = DisplayBase::kHexadecimal, .byte_order = ByteOrder::kBigEndian}},
        {"_float", FloatClass{.size = 32}},
        {"_double", FloatClass{.size = 64}},
        {"_colour", colour},
        {"_string", StringClass{}},
        {"_array", ArrayClass{FieldClass(IntegerClass{.size = 64, .is_signed = true}), 3}},
        {"_text", ArrayClass{character, 17}},
        {"__items_length", length},
        {"_items", SequenceClass{FieldClass(IntegerClass{.size = 8}), {"__items_length"}}},
        {"_point", StructClass{{{"x", length}, {"y", length}}}},
    }};
    StreamClass stream{.id = 0, .packet_context = packet_context_class("monotonic", "cpu_id")};
    stream.event_header = StructClass{{{"id", length}, {"timestamp", IntegerClass{.size = 64, .clock = "monotonic"}}}};
    stream.event_context = StructClass{{{"_vpid", IntegerClass{.size = 32, .is_signed = true}}}};
    stream.events.push_back(event);
    TraceClass trace;
    trace.uuid = Uuid{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    trace.packet_header = packet_header_class();
    trace.environment = {{"hostname", std::string("a \\ \"host\"")}, {"tracer_major", std::int64_t{-1}}};
    trace.clocks.push_back({.name = "monotonic",
                            .uuid = trace.uuid,
                            .description = "CLOCK_MONOTONIC",
                            .offset = 1'795'179'933'094'775'885,
                            .is_absolute = true});
    trace.streams.push_back(stream);
    return trace;
}

TEST(TsdlRoundTrip, EveryFieldClassReadsAsItWasWritten) {
    const TraceClass written = trace_with_every_field_class();
    const std::string text =
        kTsdlSignature + trace_blocks(written) + event_block(written.streams[0].events[0], written.streams[0].id);
    const auto read = parse_tsdl(text);
    ASSERT_TRUE(read) << read.error().message << "\n" << text;
    EXPECT_EQ(*read, written) << text;
}

}  // namespace
}  // namespace leat::ctf
