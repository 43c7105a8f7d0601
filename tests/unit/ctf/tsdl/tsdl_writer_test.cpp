#include "ctf/tsdl/tsdl_writer.hpp"

#include <gtest/gtest.h>

namespace leat::ctf {
namespace {

// The line that declares a field of this class. It is the only field of an event.
std::string declaration(const FieldClass& field_class) {
    EventClass event_class{.id = 1, .name = "e"};
    event_class.fields = StructClass{{{"_f", field_class}}};
    const std::string text = event_block(event_class, 0);
    const std::string begin = "fields := struct {\n\t\t";
    const std::size_t from = text.find(begin) + begin.size();
    return text.substr(from, text.find("\n\t};") - from);
}

TEST(TsdlWriter, Integer) {
    EXPECT_EQ(declaration(IntegerClass{.size = 32, .is_signed = true}),
              "integer { size = 32; align = 8; signed = true; base = 10; byte_order = le; } _f;");
}

TEST(TsdlWriter, IntegerWithEverything) {
    EXPECT_EQ(declaration(IntegerClass{.size = 27,
                                       .alignment = 1,
                                       .base = DisplayBase::kHexadecimal,
                                       .byte_order = ByteOrder::kBigEndian,
                                       .encoding = Encoding::kAscii,
                                       .clock = "mono"}),
              "integer { size = 27; align = 1; signed = false; base = 16; byte_order = be; encoding = ASCII; "
              "map = clock.mono.value; } _f;");
}

TEST(TsdlWriter, Floats) {
    EXPECT_EQ(declaration(FloatClass{.size = 32}),
              "floating_point { exp_dig = 8; mant_dig = 24; align = 8; byte_order = le; } _f;");
    EXPECT_EQ(declaration(FloatClass{.size = 64, .byte_order = ByteOrder::kBigEndian}),
              "floating_point { exp_dig = 11; mant_dig = 53; align = 8; byte_order = be; } _f;");
}

TEST(TsdlWriter, Enumerations) {
    const IntegerClass byte{.size = 8};
    EXPECT_EQ(declaration(EnumClass{byte, {{"a", 0, 0}, {"b c", 1, 9}}}),
              "enum : integer { size = 8; align = 8; signed = false; base = 10; byte_order = le; } "
              "{ \"a\" = 0, \"b c\" = 1 ... 9, } _f;");
}

TEST(TsdlWriter, EnumerationBoundsHaveTheSignOfTheirContainer) {
    const std::uint64_t minus_one = ~0ULL;
    const EnumClass of_signed{IntegerClass{.size = 8, .is_signed = true}, {{"a", minus_one, 0}}};
    EXPECT_NE(declaration(of_signed).find("\"a\" = -1 ... 0,"), std::string::npos);
    const EnumClass of_unsigned{IntegerClass{.size = 64}, {{"a", 0, minus_one}}};
    EXPECT_NE(declaration(of_unsigned).find("\"a\" = 0 ... 18446744073709551615,"), std::string::npos);
}

TEST(TsdlWriter, LabelsAreQuoted) {
    const EnumClass labels{IntegerClass{}, {{"say \"hi\" \\o/", 0, 0}}};
    EXPECT_NE(declaration(labels).find(R"("say \"hi\" \\o/" = 0)"), std::string::npos);
}

TEST(TsdlWriter, Strings) {
    EXPECT_EQ(declaration(StringClass{}), "string _f;");
    EXPECT_EQ(declaration(StringClass{Encoding::kAscii}), "string { encoding = ASCII; } _f;");
}

TEST(TsdlWriter, ArraysAndSequences) {
    const FieldClass element = StringClass{};
    EXPECT_EQ(declaration(ArrayClass{element, 4}), "string _f[4];");
    EXPECT_EQ(declaration(SequenceClass{element, {"_n"}}), "string _f[ _n ];");
    EXPECT_EQ(declaration(SequenceClass{element, {"stream", "event", "context", "n"}}),
              "string _f[ stream.event.context.n ];");
}

TEST(TsdlWriter, StructsAndVariants) {
    const StructClass point{{{"x", StringClass{}}}, 8};
    EXPECT_EQ(declaration(point), "struct {\n\t\t\tstring x;\n\t\t} align(8) _f;");
    EXPECT_EQ(declaration(VariantClass{{"tag"}, {{"x", StringClass{}}}}),
              "variant <tag> {\n\t\t\tstring x;\n\t\t} _f;");
}

TEST(TsdlWriter, EventBlockIsWhole) {
    EventClass event_class{.id = 7, .name = "io:queued", .log_level = 6, .model_uri = "http://x"};
    EXPECT_EQ(event_block(event_class, 3),
              "event {\n\tname = \"io:queued\";\n\tid = 7;\n\tstream_id = 3;\n\tloglevel = 6;\n"
              "\tmodel.emf.uri = \"http://x\";\n\tfields := struct {\n\t};\n};\n\n");
}

TEST(TsdlWriter, TraceBlocksHaveTheirOrder) {
    TraceClass trace;
    trace.environment = {{"number", std::int64_t{-5}}, {"text", std::string("a \"b\"")}};
    trace.clocks.push_back({.name = "mono", .offset = 9, .is_absolute = true});
    trace.streams.push_back({.id = 2});
    EXPECT_EQ(trace_blocks(trace),
              "trace {\n\tmajor = 1;\n\tminor = 8;\n\tbyte_order = le;\n};\n\n"
              "env {\n\tnumber = -5;\n\ttext = \"a \\\"b\\\"\";\n};\n\n"
              "clock {\n\tname = \"mono\";\n\tfreq = 1000000000;\n\toffset_s = 0;\n"
              "\toffset =                    9;\n"
              "\tabsolute = true;\n};\n\n"
              "stream {\n\tid = 2;\n};\n\n");
}

TEST(TsdlWriter, OffsetOfTheClockChangesInItsRoom) {
    TraceClass trace;
    trace.environment = {{"text", std::string("\nclock {\n\toffset = 1;")}};
    trace.clocks.push_back({.name = "mono", .offset = 9, .is_absolute = true});
    const std::string first = trace_blocks(trace);
    for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{1'795'179'933'094'775'885}, ~std::uint64_t{0}}) {
        trace.clocks.front().offset = offset;
        EXPECT_EQ(with_clock_offset(first, offset), trace_blocks(trace));
    }
    EXPECT_EQ(with_clock_offset(*with_clock_offset(first, ~std::uint64_t{0}), 9), first);
}

TEST(TsdlWriter, OffsetOfOtherTextIsNotChanged) {
    for (const char* const text : {"", "\nclock {\n", "\tclock {\n\toffset = 5;\n}", "\nclock {\n\toffset = 5"})
        EXPECT_EQ(with_clock_offset(text, 1).error().kind, ErrorKind::kCorrupt) << text;
    EXPECT_EQ(with_clock_offset("\nclock {\n\toffset = 12;\n", 99), "\nclock {\n\toffset = 99;\n");
    EXPECT_EQ(with_clock_offset("\nclock {\n\toffset = 12;\n", 100).error().kind, ErrorKind::kUnsupported);
}

}  // namespace
}  // namespace leat::ctf
