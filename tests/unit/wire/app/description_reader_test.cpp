#include "wire/app/description_reader.hpp"

#include <gtest/gtest.h>

#include "support/description_table.hpp"

namespace leat::wire {
namespace {

using test::TestField;
using test::TestTable;
using test::TestTracepoint;

const TestField kEnumField{
    .name = "state", .element = 2, .element_size = 1, .values = {{"idle", 0, 0}, {"busy", 1, 9}}};
const TestField kSequenceField{.name = "items", .shape = 2, .element_size = 8, .length_size = 2};
const TestTable kGoodTable{{TestTracepoint{.name = "io:queued", .fields = {TestField{.flags = 1}, kEnumField}},
                            TestTracepoint{.name = "io:done", .fields = {kSequenceField}}}};

auto parse(const TestTable& table) { return parse_descriptions(test::untrusted(table.bytes())); }
auto parse(const TestField& field) { return parse(TestTable{{TestTracepoint{.fields = {field}}}}); }

// Expects that the first tracepoint is refused and that the rest of the table is read.
template <class T>
void expect_refused(const T& what, const std::string& words) {
    const auto parsed = parse(what);
    ASSERT_TRUE(parsed) << parsed.error().message;
    const TracepointDescription& tracepoint = parsed->front();
    ASSERT_FALSE(tracepoint.refusal.empty()) << "taken; expected: " << words;
    EXPECT_NE(tracepoint.refusal.find(words), std::string::npos) << tracepoint.refusal;
    EXPECT_EQ(tracepoint.refusal.find('\n'), std::string::npos);
    EXPECT_TRUE(tracepoint.fields.empty());
}

template <class T>
void expect_taken(const T& what) {
    const auto parsed = parse(what);
    ASSERT_TRUE(parsed) << parsed.error().message;
    EXPECT_EQ(parsed->front().refusal, "");
}

void expect_no_table(const TestTable& table, const std::string& words) {
    const auto parsed = parse(table);
    ASSERT_FALSE(parsed) << "taken; expected: " << words;
    EXPECT_NE(parsed.error().message.find(words), std::string::npos) << parsed.error().message;
}

TEST(DescriptionReader, GoodTableComesBack) {
    const auto tracepoints = parse(kGoodTable);
    ASSERT_TRUE(tracepoints) << tracepoints.error().message;
    ASSERT_EQ(tracepoints->size(), 2U);
    const TracepointDescription& queued = (*tracepoints)[0];
    EXPECT_EQ(queued.name, "io:queued");
    EXPECT_EQ(queued.log_level, 6);
    EXPECT_EQ(queued.file, "test.c");
    EXPECT_EQ(queued.line, 12U);
    ASSERT_EQ(queued.fields.size(), 2U);
    EXPECT_TRUE(queued.fields[0].is_signed);
    EXPECT_EQ(queued.fields[1].element, FieldElement::kEnum);
    ASSERT_EQ(queued.fields[1].values.size(), 2U);
    EXPECT_EQ(queued.fields[1].values[1].label, "busy");
    EXPECT_EQ(queued.fields[1].values[1].high, 9);
    const FieldDescription& items = (*tracepoints)[1].fields.at(0);
    EXPECT_EQ(items.shape, FieldShape::kSequence);
    EXPECT_EQ(items.length_size, 2U);
}

TEST(DescriptionReader, EmptyTableHasNoTracepoints) {
    const auto tracepoints = parse(TestTable{});
    ASSERT_TRUE(tracepoints);
    EXPECT_TRUE(tracepoints->empty());
}

TEST(DescriptionReader, TruncatedAnywhereIsRefused) {
    const std::string whole = kGoodTable.bytes();
    for (std::size_t size = 0; size < whole.size(); ++size) {
        std::string cut = whole.substr(0, size);
        ASSERT_FALSE(parse_descriptions(test::untrusted(cut))) << size << " bytes";
        if (size < kDescriptionHeaderSize) continue;
        // The result is the same if the header states the shorter size.
        const auto told = static_cast<std::uint32_t>(size);
        std::memcpy(cut.data() + 12, &told, sizeof told);
        ASSERT_FALSE(parse_descriptions(test::untrusted(cut))) << size << " bytes";
    }
}

TEST(DescriptionReader, EveryByteMayBeWrong) {
    const std::string whole = kGoodTable.bytes();
    for (std::size_t at = 0; at < whole.size(); ++at) {
        for (const char wrong : {'\0', '\x01', '\x7f', '\x80', '\xff'}) {
            std::string broken = whole;
            broken[at] = wrong;
            (void)parse_descriptions(test::untrusted(broken));  // any result is fine, as long as it returns
        }
    }
}

TEST(DescriptionReader, ForeignMagicIsRefused) { expect_no_table(TestTable{.magic = 0x1234}, "begins with 0x1234"); }

TEST(DescriptionReader, OtherVersionIsUnsupported) {
    const auto parsed = parse(TestTable{.version = 3});
    ASSERT_FALSE(parsed);
    EXPECT_EQ(parsed.error().kind, ErrorKind::kUnsupported);
    EXPECT_EQ(parsed.error().message, "description table of version 3; this is version 2");
}

TEST(DescriptionReader, SizeThatIsNotItsOwnIsRefused) {
    const auto parsed = parse_descriptions(test::untrusted(kGoodTable.bytes() + "x"));
    ASSERT_FALSE(parsed);
    EXPECT_NE(parsed.error().message.find("bytes says"), std::string::npos);
}

// Memory of such a size is never allocated.
TEST(DescriptionReader, CountsThatCannotFitAreRefused) {
    test::Bytes table;
    table.value(kDescriptionMagic).value(kDescriptionVersion).value(0xffff'ffffU).value(kDescriptionHeaderSize);
    EXPECT_FALSE(parse_descriptions(test::untrusted(table.str())));

    std::string fields = TestTable{{TestTracepoint{}}}.bytes();
    std::memset(fields.data() + fields.size() - 4, 0xff, 4);
    const auto parsed = parse_descriptions(test::untrusted(fields));
    ASSERT_FALSE(parsed);
    EXPECT_EQ(parsed.error().message, "4294967295 fields do not fit into 0 bytes");

    // Memory would be enough for so many fields, but the table has no bytes for them.
    constexpr std::uint32_t kMany = 1000;
    std::memcpy(fields.data() + fields.size() - 4, &kMany, 4);
    const auto many = parse_descriptions(test::untrusted(fields));
    ASSERT_FALSE(many);
    EXPECT_EQ(many.error().message, "1000 fields do not fit into 0 bytes");

    std::string values = TestTable{{TestTracepoint{.fields = {TestField{}}}}}.bytes();
    std::memset(values.data() + values.size() - 4, 0xff, 4);
    EXPECT_FALSE(parse_descriptions(test::untrusted(values)));
}

TEST(DescriptionReader, NamesThatNoTraceCanHold) {
    expect_refused(TestTable{{TestTracepoint{.name = ""}}}, "its name has 0 bytes");
    expect_refused(TestTable{{TestTracepoint{.name = std::string(256, 'a')}}}, "256 bytes");
    expect_refused(TestTable{{TestTracepoint{.name = "a\nb"}}}, "not printable");
    expect_taken(TestTable{{TestTracepoint{.name = std::string(255, 'a')}}});
    expect_taken(TestTable{{TestTracepoint{.name = "with \"quotes\" and \\"}}});
    for (const std::string name : {"", "1st", "with space", "semi;colon", "new\nline"})
        expect_refused(TestField{.name = name}, "is no field name");
    expect_refused(TestField{.name = std::string(256, 'a')}, "is no field name");
}

TEST(DescriptionReader, ControlCharactersDoNotReachTheMessage) {
    expect_refused(TestField{.name = "a\x1b[2J\n"}, "\"a?[2J?\" is no field name");
    const auto parsed = parse(TestTable{{TestTracepoint{.name = "a\nb" + std::string(1000, 'c'), .file = "a\x1b.c"}}});
    EXPECT_EQ(parsed->front().name, "a?b" + std::string(77, 'c') + "...");
    EXPECT_EQ(parsed->front().file, "a?.c");
}

TEST(DescriptionReader, FieldsOfOneNameAreRefused) {
    expect_refused(TestTable{{TestTracepoint{.fields = {TestField{.name = "a"}, TestField{.name = "a"}}}}},
                   "it has two fields \"a\"");
}

TEST(DescriptionReader, OneBadTracepointLeavesTheOthers) {
    const auto parsed = parse(TestTable{{TestTracepoint{.name = "a:bad", .fields = {TestField{.shape = 6}}},
                                         TestTracepoint{.name = "a:good", .fields = {kSequenceField}}}});
    ASSERT_TRUE(parsed) << parsed.error().message;
    ASSERT_EQ(parsed->size(), 2U);
    EXPECT_EQ((*parsed)[0].refusal, "field \"field\" has unknown shape 6");
    EXPECT_EQ((*parsed)[1].refusal, "");
    EXPECT_EQ((*parsed)[1].name, "a:good");
    EXPECT_EQ((*parsed)[1].fields.size(), 1U);
}

TEST(DescriptionReader, SizesThatNoElementHas) {
    for (const std::uint8_t size : {0, 3, 5, 9, 16, 255})
        expect_refused(TestField{.element_size = size}, "has elements of");
    for (const std::uint8_t size : {1, 2})
        expect_refused(TestField{.element = 1, .element_size = size}, "has elements of");
    for (const std::uint8_t size : {0, 3, 9})
        expect_refused(TestField{.shape = 2, .length_size = size}, "has a length of");
    expect_taken(TestField{.length_size = 9});  // a scalar has no length
    for (const std::uint8_t shape : {1, 4}) {
        expect_taken(TestField{.shape = shape, .count = 1U << 30});
        expect_refused(TestField{.shape = shape, .count = (1U << 30) + 1}, "has 1073741825 elements");
    }
}

TEST(DescriptionReader, UnknownKindsAreRefused) {
    expect_refused(TestField{.shape = 6}, "unknown shape 6");
    expect_refused(TestField{.element = 3}, "unknown element 3");
    expect_refused(TestField{.element = 2}, "enumeration without values");
}

TEST(DescriptionReader, LogLevelsEndAt14) {
    expect_taken(TestTable{{TestTracepoint{.log_level = 14}}});
    expect_refused(TestTable{{TestTracepoint{.log_level = 15}}}, "has log level 15");
    expect_refused(TestTable{{TestTracepoint{.log_level = -1}}}, "has log level -1");
}

TEST(DescriptionReader, EnumerationValuesGoForward) {
    TestField field = kEnumField;
    field.values = {{"backward", 2, 1}};
    expect_refused(field, "value \"backward\" ends before it begins");
    // -1 is the largest number of an unsigned container, but the number before 0 in a signed one.
    field.values = {{"all", 0, -1}};
    expect_taken(field);
    field.flags = 1;
    expect_refused(field, "ends before it begins");
    field.values = {{"control\tcharacter", 0, 0}};
    expect_refused(field, "control characters");
}

}  // namespace
}  // namespace leat::wire
