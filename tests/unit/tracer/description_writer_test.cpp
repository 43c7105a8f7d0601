// The daemon reads what the tracer writes about its tracepoints.
#include "tracer/description_writer.hpp"

#include <gtest/gtest.h>
#include <leat/tracepoint.h>

#include <leat/event.hpp>
#include <span>
#include <string>

#include "wire/app/description_reader.hpp"

LEAT_ENUM(direction, LEAT_VALUE("read", 0), LEAT_RANGE("other", 2, 9), LEAT_AUTO("next"))

#define ALL_FIELDS(FIELD)                                            \
    FIELD(integer, std::int16_t, small, 1)                           \
    FIELD(integer_hex, std::uint64_t, address, 2)                    \
    FIELD(integer_network, std::uint32_t, host, 3)                   \
    FIELD(boolean, is_good, true)                                    \
    FIELD(floating, float, ratio, 0.5F)                              \
    FIELD(floating, double, exact, 0.5)                              \
    FIELD(enumeration, direction, std::uint8_t, way, 0)              \
    FIELD(string, owner, "x")                                        \
    FIELD(array, std::int32_t, triple, nullptr, 3)                   \
    FIELD(sequence, std::uint64_t, items, nullptr, std::uint16_t, 0) \
    FIELD(text, tag, "12345678", 8)                                  \
    FIELD(text_sequence, note, "x", std::uint32_t, 1)                \
    FIELD(hidden, integer_hex, std::uint16_t, secret, 1)

LEAT_TRACEPOINT(test, all, LEAT_WARNING, ALL_FIELDS, void);
LEAT_TRACEPOINT(test, none, LEAT_DEBUG, LEAT_NO_FIELDS, void);

namespace leat::tracer {
namespace {

using wire::FieldElement;
using wire::FieldShape;

std::vector<wire::TracepointDescription> round_trip(const std::vector<leat_tracepoint*>& tracepoints) {
    std::string table(description_table_size(tracepoints.data(), tracepoints.size()), '\0');
    write_description_table(table.data(), table.size(), tracepoints.data(), tracepoints.size());
    const auto parsed = wire::parse_descriptions(std::as_bytes(std::span(table)));
    EXPECT_TRUE(parsed) << parsed.error().message;
    return parsed ? *parsed : std::vector<wire::TracepointDescription>{};
}

TEST(DescriptionWriter, NothingIsAnEmptyTable) { EXPECT_TRUE(round_trip({}).empty()); }

TEST(DescriptionWriter, UriIsToldWhereThereIsOne) {
    leat_tracepoint tracepoint = leat_tracepoint_test__none;
    tracepoint.uri = "http://example.org/event";
    const auto tracepoints = round_trip({&tracepoint, &leat_tracepoint_test__none});
    ASSERT_EQ(tracepoints.size(), 2U);
    EXPECT_EQ(tracepoints[0].model_uri, "http://example.org/event");
    EXPECT_EQ(tracepoints[1].model_uri, "");
}

TEST(DescriptionWriter, TracepointSaysWhereItIs) {
    const auto tracepoints = round_trip({&leat_tracepoint_test__all, &leat_tracepoint_test__none});
    ASSERT_EQ(tracepoints.size(), 2U);
    EXPECT_EQ(tracepoints[0].name, "test:all");
    EXPECT_EQ(tracepoints[0].log_level, 4);
    EXPECT_EQ(tracepoints[0].file, __FILE__);
    EXPECT_GT(tracepoints[0].line, 0U);
    EXPECT_EQ(tracepoints[1].name, "test:none");
    EXPECT_TRUE(tracepoints[1].fields.empty());
}

TEST(DescriptionWriter, EveryKindOfFieldArrives) {
    const auto tracepoints = round_trip({&leat_tracepoint_test__all});
    ASSERT_EQ(tracepoints.size(), 1U);
    struct Expected {
        const char* name;
        FieldShape shape;
        FieldElement element;
        unsigned element_size;
        bool is_signed, is_hex, is_network;
        unsigned length_size;
        std::uint32_t count;
    };
    const std::vector<Expected> expected{
        {"small", FieldShape::kScalar, FieldElement::kInteger, 2, true, false, false, 0, 0},
        {"address", FieldShape::kScalar, FieldElement::kInteger, 8, false, true, false, 0, 0},
        {"host", FieldShape::kScalar, FieldElement::kInteger, 4, false, false, true, 0, 0},
        {"is_good", FieldShape::kScalar, FieldElement::kInteger, 1, false, false, false, 0, 0},
        {"ratio", FieldShape::kScalar, FieldElement::kFloat, 4, false, false, false, 0, 0},
        {"exact", FieldShape::kScalar, FieldElement::kFloat, 8, false, false, false, 0, 0},
        {"way", FieldShape::kScalar, FieldElement::kEnum, 1, false, false, false, 0, 0},
        {"owner", FieldShape::kString, FieldElement::kInteger, 1, false, false, false, 0, 0},
        {"triple", FieldShape::kArray, FieldElement::kInteger, 4, true, false, false, 0, 3},
        {"items", FieldShape::kSequence, FieldElement::kInteger, 8, false, false, false, 2, 0},
        {"tag", FieldShape::kTextArray, FieldElement::kInteger, 1, false, false, false, 0, 8},
        {"note", FieldShape::kTextSequence, FieldElement::kInteger, 1, false, false, false, 4, 0},
        {"secret", FieldShape::kScalar, FieldElement::kInteger, 2, false, true, false, 0, 0}};
    ASSERT_EQ(tracepoints[0].fields.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
        const wire::FieldDescription& field = tracepoints[0].fields[i];
        SCOPED_TRACE(expected[i].name);
        EXPECT_EQ(field.name, expected[i].name);
        EXPECT_EQ(field.shape, expected[i].shape);
        EXPECT_EQ(field.element, expected[i].element);
        EXPECT_EQ(field.element_size, expected[i].element_size);
        EXPECT_EQ(field.is_signed, expected[i].is_signed);
        EXPECT_EQ(field.is_hex, expected[i].is_hex);
        EXPECT_EQ(field.is_network, expected[i].is_network);
        EXPECT_EQ(field.length_size, expected[i].length_size);
        EXPECT_EQ(field.count, expected[i].count);
        EXPECT_EQ(field.is_hidden, field.name == "secret");
    }
}

TEST(DescriptionWriter, HiddenFieldOfOneLineEventArrives) {
    const std::uint8_t value = 0;
    const auto fields = leat::detail::Field<leat::Hidden<std::uint8_t>>::describe("secret");
    EXPECT_EQ(fields.is_hidden, 1);
    EXPECT_EQ(fields.element_size, 1);
    LEAT_EVENT("test:hidden", LEAT_FIELD(secret, leat::hidden(value)));
}

TEST(DescriptionWriter, AutomaticValueIsOneMoreThanTheOneBefore) {
    const auto tracepoints = round_trip({&leat_tracepoint_test__all});
    ASSERT_EQ(tracepoints.size(), 1U);
    const auto& values = tracepoints[0].fields.at(6).values;
    ASSERT_EQ(values.size(), 3U);
    EXPECT_EQ(values[1].label, "other");
    EXPECT_EQ(values[1].low, 2);
    EXPECT_EQ(values[1].high, 9);
    EXPECT_EQ(values[2].label, "next");
    EXPECT_EQ(values[2].low, 10);
    EXPECT_EQ(values[2].high, 10);
}

// Without a daemon, the module of this very program was loaded. No tracepoint is enabled.
TEST(ModuleLoad, WithoutDaemonAllIsOff) {
    EXPECT_FALSE(leat_enabled(test, all));
    EXPECT_EQ(leat_module_.is_registered, 1U);
    leat_tracepoint(test, all);
    LEAT_EVENT("test:one_line", LEAT_FIELD(value, 1));
}

}  // namespace
}  // namespace leat::tracer
