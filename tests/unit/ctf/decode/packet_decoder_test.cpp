#include "ctf/decode/packet_decoder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "ctf/decode/trace_plans.hpp"
#include "ctf/tsdl/tsdl_parser.hpp"

namespace leat::ctf {
namespace {

using namespace std::string_literals;

const std::string kTypes =
    "clock { name = m; freq = 1000000000; };"
    "typealias integer { size = 8; } := u8;"
    "typealias integer { size = 64; } := u64;"
    "typealias integer { size = 8; encoding = UTF8; } := char;"
    "typealias integer { size = 8; map = clock.m.value; } := ts8;"
    "typealias integer { size = 64; map = clock.m.value; } := ts64;";

UntrustedBytes bytes_of(const std::string& bytes) { return std::as_bytes(std::span(bytes)); }

// A trace of one stream, with its first packet decoded.
class Decoded {
  public:
    Decoded(const std::string& tsdl, std::string bytes) : bytes_(std::move(bytes)) { start(tsdl); }

    // Null at the end and after an error.
    const EventRecord* next() {
        if (!error.empty()) return nullptr;
        const auto is_event = decoder_->next();
        if (!is_event) fail(is_event.error());
        return is_event && *is_event ? &decoder_->record() : nullptr;
    }

    // The numbers in the next event's payload. For compounds, these are their sizes.
    std::vector<std::uint64_t> next_numbers() {
        std::vector<std::uint64_t> numbers;
        const EventRecord* const event = next();
        if (event == nullptr) return numbers;
        for (const FieldValue& value : event->fields.subspan(1)) numbers.push_back(number_of(value));
        return numbers;
    }

    PacketProperties properties{};
    std::string error;

  private:
    void start(const std::string& tsdl) {
        auto trace_class = parse_tsdl(kTypes + tsdl);
        if (!trace_class) return fail(trace_class.error());
        trace_class_ = std::make_unique<TraceClass>(*std::move(trace_class));
        auto plan = make_decode_plan(*trace_class_, trace_class_->streams.front());
        if (!plan) return fail(plan.error());
        plan_ = std::make_unique<DecodePlan>(*std::move(plan));
        decoder_ = std::make_unique<PacketDecoder>(*plan_);
        auto packet = decoder_->start(bytes_of(bytes_), 0);
        if (!packet) return fail(packet.error());
        properties = *packet;
    }

    static std::uint64_t number_of(const FieldValue& value) {
        const bool is_number =
            value.field_class->as<IntegerClass>() != nullptr || value.field_class->as<EnumClass>() != nullptr;
        return is_number ? value.number : value.size;
    }
    void fail(const Error& failure) { error = failure.message; }

    std::string bytes_;
    std::unique_ptr<TraceClass> trace_class_;
    std::unique_ptr<DecodePlan> plan_;
    std::unique_ptr<PacketDecoder> decoder_;
};

std::string event_of(const std::string& fields) { return "event { name = e; fields := struct { " + fields + " }; };"; }

using Numbers = std::vector<std::uint64_t>;

TEST(PacketDecoder, FieldsFollowOneAnother) {
    Decoded decoded(event_of("u8 a; integer { size = 8; signed = true; } b; u8 c[2];"), "\1\xff\3\4"s);
    EXPECT_EQ(decoded.next_numbers(), (Numbers{1, ~std::uint64_t{0}, 2, 3, 4}));
    EXPECT_EQ(decoded.next(), nullptr);
    EXPECT_EQ(decoded.error, "");
}

TEST(PacketDecoder, AlignmentCountsFromThePacket) {
    Decoded decoded(event_of("u8 a; integer { size = 8; align = 32; } b;"), "\1...\2...\3...\4"s);
    EXPECT_EQ(decoded.next_numbers(), (Numbers{1, 2}));
    EXPECT_EQ(decoded.next_numbers(), (Numbers{3, 4}));
}

TEST(PacketDecoder, EmptySequenceStillAlignsItsElements) {
    Decoded decoded(event_of("u8 n; integer { size = 8; align = 32; } s[n]; u8 z;"), "\0...\7"s);
    EXPECT_EQ(decoded.next_numbers(), (Numbers{0, 0, 7}));
}

TEST(PacketDecoder, SequenceTakesItsLengthFromAnyScope) {
    Decoded decoded(
        "stream { event.header := struct { u8 n; }; event.context := struct { struct { u8 n; } in; }; };"
        "event { name = e; context := struct { u8 n; }; fields := struct { struct { u8 n; } in;"
        "u8 a[stream.event.header.n]; u8 b[stream.event.context.in.n]; u8 c[event.context.n];"
        "u8 d[in.n]; u8 e[event.fields.in.n]; }; };",
        "\1\2\0\1"
        "abbde"s);
    EXPECT_EQ(decoded.next_numbers(), (Numbers{1, 1, 1, 'a', 2, 'b', 'b', 0, 1, 'd', 1, 'e'}));
    EXPECT_EQ(decoded.error, "");
}

TEST(PacketDecoder, VariantDecodesTheOptionOfItsTag) {
    const std::string tsdl =
        event_of("enum : u8 { A = 0 ... 3, B = 4 } t; variant <t> { u8 A; struct { u8 x, y; } B; } v;");
    Decoded decoded(tsdl, "\2\7\4\10\11\11"s);
    EXPECT_EQ(decoded.next_numbers(), (Numbers{2, 1, 7}));
    EXPECT_EQ(decoded.next_numbers(), (Numbers{4, 1, 2, 8, 9}));
    EXPECT_EQ(decoded.next(), nullptr);
    EXPECT_EQ(decoded.error, "event at offset 5: the tag of a variant chooses none of its options");
}

TEST(PacketDecoder, TagOfAVariantHasTheSignOfItsContainer) {
    const std::string of_variant = " t; variant <t> { u8 A; struct { u8 x, y; } B; } v;";
    Decoded negative(event_of("enum : integer { size = 8; signed = true; } { A = -3 ... 2, B = 3 }" + of_variant),
                     "\xff\7\3\10\11"s);
    EXPECT_EQ(negative.next_numbers(), (Numbers{~std::uint64_t{0}, 1, 7}));
    EXPECT_EQ(negative.next_numbers(), (Numbers{3, 1, 2, 8, 9}));
    Decoded large(event_of("enum : u8 { A = 253 ... 255, B = 2 }" + of_variant), "\xff\7\2\10\11"s);
    EXPECT_EQ(large.next_numbers(), (Numbers{255, 1, 7}));
    EXPECT_EQ(large.next_numbers(), (Numbers{2, 1, 2, 8, 9}));
}

TEST(PacketDecoder, TextEndsAtItsFirstNul) {
    Decoded decoded(event_of("string s; char t[4]; u8 n; char q[n];"), "hi\0abc\0\2xy"s);
    const EventRecord* const event = decoded.next();
    ASSERT_NE(event, nullptr);
    EXPECT_EQ(std::string(event->fields[1].text, event->fields[1].size), "hi");
    EXPECT_EQ(std::string(event->fields[2].text, event->fields[2].size), "abc");
    EXPECT_EQ(std::string(event->fields[4].text, event->fields[4].size), "xy");
}

TEST(PacketDecoder, HeaderIdMayLieInAVariant) {
    Decoded decoded(
        "stream { event.header := struct { enum : u8 { compact = 0 ... 254, extended = 255 } id;"
        "variant <id> { struct { } compact; struct { u8 id; } extended; } v; }; };"
        "event { name = a; id = 3; }; event { name = b; id = 4; };",
        "\3\xff\4\3"s);
    EXPECT_EQ(decoded.next()->event_class->name, "a");
    EXPECT_EQ(decoded.next()->event_class->name, "b");
    EXPECT_EQ(decoded.next()->event_class->name, "a");
}

TEST(PacketDecoder, UnknownIdIsNamed) {
    Decoded decoded("stream { event.header := struct { u8 id; }; }; event { name = a; id = 3; };", "\3\11"s);
    EXPECT_NE(decoded.next(), nullptr);
    EXPECT_EQ(decoded.next(), nullptr);
    EXPECT_EQ(decoded.error, "event at offset 1: event id 9 is not declared in stream 0");
}

TEST(PacketDecoder, NarrowTimestampsContinueTheBeginOfThePacket) {
    Decoded decoded(
        "stream { packet.context := struct { ts64 timestamp_begin; ts64 timestamp_end; };"
        "event.header := struct { ts8 timestamp; }; }; event { name = a; };",
        "\xf0\1\0\0\0\0\0\0"
        "\0\7\0\0\0\0\0\0"
        "\xf5\2"s);
    EXPECT_EQ(decoded.properties.begin_ns, 0x1F0);
    EXPECT_EQ(decoded.properties.end_ns, 0x700);
    EXPECT_EQ(decoded.next()->time_ns, 0x1F5);
    EXPECT_EQ(decoded.next()->time_ns, 0x202);
}

TEST(PacketDecoder, NarrowEndOfAPacketFollowsItsBegin) {
    const std::string stream =
        "stream { packet.context := struct { ts64 timestamp_begin; ts8 timestamp_end; };"
        "event.header := struct { ts8 timestamp; }; }; event { name = a; };";
    EXPECT_EQ(Decoded(stream, "\xf0\1\0\0\0\0\0\0\7"s).properties.end_ns, 0x207);
    EXPECT_EQ(Decoded(stream, "\xf0\1\0\0\0\0\0\0\xf0"s).properties.end_ns, 0x1F0);
    // It has not ended.
    EXPECT_EQ(Decoded(stream, "\xf0\1\0\0\0\0\0\0\0"s).properties.end_cycles, 0U);
}

TEST(PacketDecoder, FieldsWithAMeaningAreNotShown) {
    Decoded decoded(
        "stream { packet.context := struct { u8 packet_seq_num; u8 cpu_id; }; };" + event_of("ts8 t; u8 a;"),
        "\5\6\7\1"s);
    EXPECT_EQ(decoded.properties.sequence_number, 5U);
    const EventRecord* const event = decoded.next();
    ASSERT_NE(event, nullptr);
    ASSERT_EQ(event->packet_context.size(), 2U);
    EXPECT_EQ(event->packet_context[1].name, "cpu_id");
    ASSERT_EQ(event->fields.size(), 2U);
    EXPECT_EQ(event->fields[1].name, "a");
}

TEST(PacketDecoder, PacketThatLiesAboutItsSizeIsRefused) {
    const std::string sizes = "stream { packet.context := struct { u64 packet_size; u64 content_size; }; };";
    const auto error_of = [&](const std::string& packet_size, const std::string& content_size) {
        return Decoded(sizes + event_of("u8 a;"), packet_size + content_size + "rest").error;
    };
    EXPECT_EQ(error_of("\xa0\0\0\0\0\0\0\0"s, "\x98\0\0\0\0\0\0\0"s), "");
    EXPECT_NE(error_of("\xa0\0\0\0\0\0\0\0"s, "\xa8\0\0\0\0\0\0\0"s).find("larger than itself"), std::string::npos);
    EXPECT_NE(error_of("\xa0\0\0\0\0\0\0\0"s, "\x10\0\0\0\0\0\0\0"s).find("smaller than its own"), std::string::npos);
    EXPECT_NE(error_of("\xa1\0\0\0\0\0\0\0"s, "\x98\0\0\0\0\0\0\0"s).find("161 bits"), std::string::npos);
    EXPECT_NE(error_of("\0\0\0\0\0\0\0\0"s, "\0\0\0\0\0\0\0\0"s), "");
    EXPECT_EQ(error_of("\xf8\xff\xff\xff\xff\xff\xff\xff"s, "\xf8\xff\xff\xff\xff\xff\xff\xff"s), "");
}

TEST(PacketDecoder, ContentMayEndWithinAByte) {
    const std::string bits = "integer { size = 3; align = 1; }";
    const std::string context = "stream { packet.context := struct { u8 packet_size; u8 content_size; }; };";
    const std::string event = "event { name = e; fields := struct { " + bits + " a; }; };";
    Decoded decoded(context + event, "\x18\x16\x35"s);  // 16 bits of context, and two events of 3 bits
    EXPECT_EQ(decoded.properties.packet_size, 3U);
    EXPECT_EQ(decoded.properties.content_bits, 22U);
    EXPECT_EQ(decoded.next_numbers(), (Numbers{5}));
    EXPECT_EQ(decoded.next_numbers(), (Numbers{6}));
    EXPECT_EQ(decoded.next(), nullptr);
    EXPECT_EQ(decoded.error, "");
}

TEST(PacketDecoder, FloatsAreAlignedToBytesUnlessTheySayOtherwise) {
    const std::string number = "floating_point { exp_dig = 8; mant_dig = 24;";
    const std::string before = "integer { size = 4; align = 1; } a; ";
    Decoded aligned(event_of(before + number + " } b;"), "\1\0\0\x80\x3f"s);
    const EventRecord* const event = aligned.next();
    ASSERT_NE(event, nullptr);
    EXPECT_EQ(event->fields[2].real, 1.0);
    Decoded packed(event_of(before + number + " align = 1; } b; " + before.substr(0, before.size() - 3) + "c;"),
                   "\1\0\0\xf8\x03"s);
    const EventRecord* const other = packed.next();
    ASSERT_NE(other, nullptr);
    EXPECT_EQ(other->fields[2].real, 1.0);
}

TEST(PacketDecoder, EnumsOfCharactersAreText) {
    Decoded decoded(event_of("enum : integer { size = 8; encoding = UTF8; } { A = 65 } a[3];"), "A\0c"s);
    const EventRecord* const event = decoded.next();
    ASSERT_NE(event, nullptr);
    EXPECT_TRUE(event->fields[1].is_text);
    EXPECT_EQ(event->fields[1].size, 1U);
}

TEST(PacketDecoder, SignedNumbersThatReadersUseAreRefused) {
    const std::string number = "integer { size = 8; signed = true; } ";
    for (const char* const name : {"content_size", "packet_size", "events_discarded", "packet_seq_num"})
        EXPECT_NE(
            Decoded("stream { packet.context := struct { " + number + name + "; }; };" + event_of("u8 a;"), "\x10\1"s)
                .error.find("is signed"),
            std::string::npos);
    EXPECT_NE(Decoded("stream { event.header := struct { " + number + "id; }; };" + event_of("u8 a;"), "\0\1"s)
                  .error.find("'id' is signed"),
              std::string::npos);
}

TEST(PacketDecoder, TextOfTheMetadataEndsAtANul) {
    Decoded decoded("event { name = \"e\\0x\"; fields := struct { u8 a; }; };", "\1"s);
    const EventRecord* const event = decoded.next();
    ASSERT_NE(event, nullptr);
    EXPECT_EQ(event->event_class->name, "e");
    EXPECT_NE(Decoded("event { name = \"e\0x\"; fields := struct { u8 a; }; };"s, "\1"s).error.find("NUL"),
              std::string::npos);
}

TEST(PacketDecoder, WrongMagicIsRefused) {
    const std::string header = "trace { packet.header := struct { integer { size = 32; } magic; }; };";
    EXPECT_EQ(Decoded(header + event_of("u8 a;"), "\xc1\x1f\xfc\xc1\1"s).error, "");
    EXPECT_NE(Decoded(header + event_of("u8 a;"), "\xc1\x1f\xfc\xc0\1"s).error.find("magic"), std::string::npos);
}

TEST(PacketDecoder, TruncationAnywhereEndsInAnError) {
    const std::string tsdl = event_of("u8 n; u8 a[n]; string s; char t[3]; u64 x; integer { size = 3; align = 1; } b;");
    const std::string whole =
        "\2ab"
        "hi\0"
        "xyz"
        "12345678"
        "\7"s;
    for (std::size_t size = 1; size < whole.size(); ++size) {
        Decoded decoded(tsdl, whole.substr(0, size));
        EXPECT_EQ(decoded.next(), nullptr) << size;
        EXPECT_NE(decoded.error.find("event at offset 0"), std::string::npos) << size;
    }
    EXPECT_NE(Decoded(tsdl, whole).next(), nullptr);
}

TEST(PacketDecoder, HugeLengthsEndInAnError) {
    const std::string huge(8, '\xff');
    for (const std::string element : {"u8 a[n];", "char a[n];", "struct { } a[n];", "struct { } a[n][n];",
                                      "integer { size = 1; } a[n];", "ts8 a[n];"}) {
        Decoded decoded(event_of("u64 n; " + element), huge + "rest");
        EXPECT_EQ(decoded.next(), nullptr) << element;
        EXPECT_NE(decoded.error, "") << element;
    }
    Decoded array(event_of("u8 a[1152921504606846976];"), "rest");
    EXPECT_EQ(array.next(), nullptr);
    EXPECT_NE(array.error, "");
}

TEST(PacketDecoder, ArrayOfNothingCostsNoTime) {
    Decoded decoded(event_of("struct { } a[4000000]; u8 b;"), std::string(64, '\1'));
    EXPECT_EQ(decoded.next(), nullptr);
    EXPECT_EQ(decoded.error, "event at offset 0: more fields than its bytes can hold");
}

// Of many small packets in a large file, each might else cost what all of the file may.
TEST(PacketDecoder, PacketPaysForItsFieldsAlone) {
    const std::string size = "stream { packet.context := struct { u8 packet_size; }; }; ";
    const std::string file(1U << 16U, '\x10');
    Decoded decoded(size + event_of("struct { } a[5000]; u8 b;"), file);
    EXPECT_EQ(decoded.next(), nullptr);
    EXPECT_EQ(decoded.error, "event at offset 1: more fields than its bytes can hold");
    Decoded with_context("stream { packet.context := struct { struct { } a[5000]; u8 packet_size; }; };" + event_of(""),
                         file);
    EXPECT_EQ(with_context.error, "packet at offset 0: more fields than its bytes can hold");
    Decoded with_header(
        "trace { major = 1; minor = 8; byte_order = le; packet.header := struct { struct { } a[5000]; }; }; " + size +
            event_of("u8 b;"),
        file);
    EXPECT_EQ(with_header.error, "packet at offset 0: more than 1024 fields");
}

TEST(PacketDecoder, EventOfNoBitsEndsInAnError) {
    Decoded decoded("event { name = a; };", "x");
    EXPECT_EQ(decoded.next(), nullptr);
    EXPECT_EQ(decoded.error, "event at offset 0: it takes no bits");
}

TEST(PacketDecoder, ClockOutOfRangeEndsInAnError) {
    Decoded decoded("stream { event.header := struct { ts64 timestamp; }; }; event { name = a; };",
                    std::string(8, '\xff'));
    EXPECT_EQ(decoded.next(), nullptr);
    EXPECT_NE(decoded.error.find("out of range"), std::string::npos);
}

// Without `map`: named timestamps of the header are found in structs and variants, and in no array.
TEST(PacketDecoder, TimestampIsFoundWhereverItIsInTheHeader) {
    const auto times = [](const std::string& header) {
        Decoded decoded("stream { packet.context := struct { u8 timestamp_begin; }; event.header := struct { " +
                            header + " }; }; event { name = a; };",
                        "\1\0\5\37\11\0\7"s);
        std::vector<std::uint64_t> found;
        while (const EventRecord* const event = decoded.next()) found.push_back(event->cycles.value_or(0));
        EXPECT_EQ(decoded.error, "");
        return found;
    };
    EXPECT_EQ(times("struct { u8 other; } s; struct { u8 timestamp; } v;"), (Numbers{5, 9, 7 + 256}));
    EXPECT_EQ(times("enum : u8 { a = 0 ... 30, b = 31 } t; variant <t> { struct { u8 timestamp; } a;"
                    "struct { u8 timestamp; } b; } v;"),
              (Numbers{5, 9, 7 + 256}));
    EXPECT_EQ(times("enum : u8 { a = 0 ... 30, timestamp = 31 } t; variant <t> { u8 a; u8 timestamp; } v;"),
              (Numbers{1, 9, 9}));
    EXPECT_EQ(times("u8 other; struct { u8 timestamp; } v[1];"), (Numbers{1, 1, 1}));
}

TEST(DecodePlan, WhatCannotBeResolvedIsRefused) {
    EXPECT_NE(
        Decoded("clock { name = k; }; stream { event.header := struct { u8 timestamp; }; }; event { name = a; };", "x")
            .error.find("does not say of which clock it is"),
        std::string::npos);
    EXPECT_NE(Decoded(event_of("u8 a[n]; u8 n;"), "x").error.find("no field 'n' before"), std::string::npos);
    EXPECT_NE(Decoded(event_of("string n; u8 a[n];"), "x").error.find("not an unsigned integer"), std::string::npos);
    EXPECT_NE(Decoded(event_of("u8 t; variant <t> { u8 a; } v;"), "x").error.find("not an enum"), std::string::npos);
    EXPECT_NE(Decoded(event_of("variant { u8 a; } v;"), "x").error.find("no tag"), std::string::npos);
    EXPECT_NE(Decoded(event_of("integer { size = 8; map = clock.q.value; } a;"), "x").error.find("clock 'q'"),
              std::string::npos);
    EXPECT_NE(Decoded("clock { name = k; };" + event_of("ts8 a; integer { size = 8; map = clock.k.value; } b;"), "x")
                  .error.find("two clocks"),
              std::string::npos);
}

// The metadata of a stream that has a variant for each of n labels, all with the same tag.
std::string variants_of_one_tag(std::size_t count) {
    std::string text = "stream { }; event { name = e; fields := struct { enum : u64 { ";
    for (std::size_t i = 0; i < count; ++i) text += fmt::format("a = {}, b = {}, ", 2 * i, 2 * i + 1);
    text += "} t; ";
    for (std::size_t i = 0; i < count; ++i) text += fmt::format("variant <t> {{ u8 a; u64 b; }} v{};", i);
    return text + "}; };";
}

TEST(DecodePlan, VariantsOfOneTagShareItsTable) {
    constexpr std::size_t kCount = 1500;
    const auto trace_class = parse_tsdl(kTypes + variants_of_one_tag(kCount));
    ASSERT_TRUE(trace_class) << trace_class.error().message;
    const auto plan = make_decode_plan(*trace_class, trace_class->streams.front());
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan->tag_labels.size(), 2U);  // the first stands for none
    EXPECT_EQ(plan->label_choices.size(), 2 * kCount);
    EXPECT_EQ(plan->choices.size(), 0U);
}

TEST(PacketDecoder, TagWithManyRangesChooses) {
    const std::string a = std::string("\6\0\0\0\0\0\0\0", 8) + std::string(20, '\1');
    EXPECT_EQ(Decoded(variants_of_one_tag(20), a).next_numbers().size(), 1 + 2 * 20U);
    const std::string b = std::string("\7\0\0\0\0\0\0\0", 8) + std::string(20 * 8, '\1');
    EXPECT_EQ(Decoded(variants_of_one_tag(20), b).next_numbers().at(2), 0x0101010101010101U);
    const std::string none(8 + 160, '\xff');
    Decoded decoded(variants_of_one_tag(20), none);
    EXPECT_EQ(decoded.next(), nullptr);
    EXPECT_NE(decoded.error.find("chooses none"), std::string::npos);
}

TEST(PacketDecoder, EventsOfAnyIdsAreFound) {
    std::string text = "stream { event.header := struct { u64 id; }; };";
    const std::vector<std::uint64_t> ids{5, 1, 1000, 200, 70, ~std::uint64_t{0}, 0};
    for (const std::uint64_t id : ids)
        text += fmt::format("event {{ id = {}; name = \"{}\"; fields := struct {{ u8 a; }}; }};", id, id);
    for (std::uint64_t id = 300; id < 1000; ++id) text += fmt::format("event {{ id = {}; name = more; }};", id);
    for (const std::uint64_t id : ids) {
        std::string packet(reinterpret_cast<const char*>(&id), sizeof id);
        Decoded decoded(text, packet + "\1");
        const EventRecord* const event = decoded.next();
        ASSERT_NE(event, nullptr) << decoded.error;
        EXPECT_EQ(event->event_class->name, std::to_string(id));
    }
    EXPECT_EQ(Decoded(text, "\2\0\0\0\0\0\0\0"s).next(), nullptr);
}

std::string text_of(std::span<const FieldValue> values) {
    std::string text;
    for (const FieldValue& value : values)
        text += value.is_text ? std::string(value.text, value.size) + " " : fmt::format("{} ", value.number);
    return text;
}

// Events are found where they are decoded, whatever was in their places before; and who wants their contexts alone
// comes to the same end.
void expect_located(const DecodePlan& plan, const std::string& packet, std::size_t at_once) {
    PacketDecoder decoder(plan);
    PacketDecoder locator(plan);
    PacketDecoder reader(plan);
    ASSERT_EQ(decoder.start(bytes_of(packet), 0).has_value(), locator.start(bytes_of(packet), 0).has_value());
    (void)reader.start(bytes_of(packet), 0);
    std::vector<EventPlace> places(at_once);
    const auto locate = [&] {
        std::ranges::fill(places, EventPlace{.cycles = 77, .time_ns = INT64_MIN});
        return locator.locate(places);
    };
    auto located = locate();
    for (; located.value_or(0) != 0; located = locate()) {
        for (std::size_t i = 0; i < *located; ++i) {
            EXPECT_EQ(decoder.position(), places[i].begin);
            ASSERT_TRUE(decoder.next().value_or(false));
            EXPECT_EQ(decoder.record().event_class, plan.events[places[i].event].event_class);
            EXPECT_EQ(decoder.record().cycles.value_or(0), places[i].cycles);
            EXPECT_EQ(decoder.record().time_ns.value_or(0), places[i].time_ns);
            ASSERT_TRUE(reader.decode_contexts(places[i]));
            EXPECT_EQ(reader.position(), decoder.position());
            EXPECT_EQ(text_of(reader.record().event_context), text_of(decoder.record().event_context));
            EXPECT_EQ(text_of(reader.record().context), text_of(decoder.record().context));
            EXPECT_EQ(reader.record().time_ns, decoder.record().time_ns);
        }
    }
    const auto next = decoder.next();
    EXPECT_EQ(located ? "" : located.error().message, next ? "" : next.error().message);
    EXPECT_FALSE(next.value_or(false));
}

// Events of numbers and strings, and between them others, in a packet that ends anywhere.
// With a clock and without one.
class LocatedEvents : public testing::TestWithParam<std::tuple<const char*, const char*>> {
  protected:
    void expect_the_same(const std::string& packet, std::size_t at_once) { expect_located(plan_, packet, at_once); }

    // Any of these bytes may be an id, a time, a number, a length, or of a string.
    std::string any_bytes(std::size_t count) {
        std::string bytes(count, '\0');
        for (char& byte : bytes) byte = "\0\1\2\3\4\5\6\2\5\6\xc8"[random_() % 11];
        return bytes;
    }

    std::mt19937_64 random_{1};  // NOLINT(bugprone-random-generator-seed): the same each time

  private:
    const TraceClass trace_class_ =
        parse_tsdl(kTypes + std::get<0>(GetParam()) + " event.header := struct { u8 id; " + std::get<1>(GetParam()) +
                   "; }; };" +
                   "event { id = 0; name = a; fields := struct { u64 a; integer { size = 64; align = 32; } b; }; };"
                   "event { id = 1; name = b; fields := struct { u8 n; u8 list[n]; }; };"
                   "event { id = 2; name = c; fields := struct { string s; }; };"
                   "event { id = 3; name = d; fields := struct { integer { size = 3; align = 1; } x; }; };"
                   "event { id = 4; name = f; fields := struct { struct { } x; struct { } y; }; };"
                   "event { id = 5; name = g; fields := struct { string s; u8 x; string t; u64 y; string z; }; };"
                   "event { id = 6; name = h; fields := struct { integer { size = 3; align = 1; } x; string s;"
                   "    integer { size = 32; align = 32; } y; }; };"
                   "event { id = 200; name = e; fields := struct { u8 x; }; };")
            .value();
    const DecodePlan plan_ = make_decode_plan(trace_class_, trace_class_.streams.front()).value();
};

TEST_P(LocatedEvents, LieWhereTheyAreDecoded) {
    for (int round = 0; round < 4000 && !HasFailure(); ++round) {
        SCOPED_TRACE(round);
        expect_the_same(any_bytes(random_() % 160), 5);
    }
}

// Many of one kind and size, and then others: of another size first, or of another kind.
TEST_P(LocatedEvents, LieWhereTheyAreDecodedAfterManyAlike) {
    for (int round = 0; round < 1000 && !HasFailure(); ++round) {
        SCOPED_TRACE(round);
        std::string packet;
        while (random_() % 6 != 0) {
            const std::string some = any_bytes(2 + random_() % 24);
            for (std::size_t count = random_() % 40; count > 0; --count) packet += some;
        }
        packet.resize(packet.size() - std::min<std::size_t>(packet.size(), random_() % 20));
        expect_the_same(packet, 1 + random_() % 300);
    }
}

INSTANTIATE_TEST_SUITE_P(
    PacketDecoder, LocatedEvents,
    testing::Combine(testing::Values("stream {", "stream { event.context := struct { struct { } c; struct { } d; };",
                                     "stream { event.context := struct { u8 c; };",
                                     "stream { event.context := struct { string c; };"),
                     testing::Values("ts8 timestamp", "u8 other")));

// Readers that look at places only refuse what those refuse that decode: the memory of an event has a bound.
TEST(PacketDecoder, EventOfMoreValuesThanMemoryIsForIsNotLocated) {
    const std::string bits = "integer { size = 1; align = 1; }";
    const std::string length = "integer { size = 32; }";
    const std::string three_quarters("\0\0\x30\0"s);  // 3 * 2^20 of the 2^22 that it may have
    for (const std::string& fields : {
             length + " n; " + bits + " a[n]; " + bits + " b[n];",
             length + " n; " + bits + " a[n]; " + bits + " b[1048576]; u8 c[1048576];",
             length + " n; u8 a[1048576]; u8 b[1048576]; u8 c[1048576]; u8 d[1048576];",
         }) {
        SCOPED_TRACE(fields);
        const TraceClass trace_class = parse_tsdl(kTypes + "stream { event.header := struct { u8 id; }; };" +
                                                  "event { id = 1; name = e; fields := struct { " + fields + " }; };")
                                           .value();
        const DecodePlan plan = make_decode_plan(trace_class, trace_class.streams.front()).value();
        const std::string packet = "\1" + three_quarters + std::string(5U << 20U, '\0');
        PacketDecoder decoder(plan);
        ASSERT_TRUE(decoder.start(bytes_of(packet), 0));
        std::vector<EventPlace> places(4);
        const auto located = decoder.locate(places);
        ASSERT_FALSE(located);
        EXPECT_EQ(located.error().message, "event at offset 0: more than 4194304 fields");
    }
}

TEST(PacketDecoder, ContextOfMoreValuesThanMemoryIsForIsRefused) {
    for (const std::uint64_t count : {kMaxContextValues - 2, kMaxContextValues}) {
        const TraceClass trace_class =
            parse_tsdl(kTypes + fmt::format("stream {{ packet.context := struct {{ u8 a[{}]; }}; }};", count)).value();
        const DecodePlan plan = make_decode_plan(trace_class, trace_class.streams.front()).value();
        PacketDecoder decoder(plan);
        const auto started = decoder.start(bytes_of(std::string(kMaxContextValues, 'x')), 0);
        ASSERT_EQ(started.has_value(), count < kMaxContextValues);
        if (started) continue;
        EXPECT_EQ(started.error().message, "packet at offset 0: more than 65536 fields");
    }
}

// An event may have that id, too: it always has a long header.
TEST(PacketDecoder, IdThatAnnouncesALongHeaderIsNoEvents) {
    const TraceClass trace_class =
        parse_tsdl(kTypes +
                   "trace { major = 1; minor = 8; byte_order = le; };"
                   "typealias integer { size = 27; align = 1; map = clock.m.value; } := ts27;"
                   "stream { event.header := struct { enum : integer { size = 5; align = 1; }"
                   "    { compact = 0 ... 30, extended = 31 } id;"
                   "    variant <id> { struct { ts27 timestamp; } compact;"
                   "        struct { u8 id; ts64 timestamp; } extended; } v; } align(8); };"
                   "event { id = 0; name = a; fields := struct { u8 x; }; };"
                   "event { id = 31; name = b; fields := struct { u64 x; }; };")
            .value();
    const DecodePlan plan = make_decode_plan(trace_class, trace_class.streams.front()).value();
    ASSERT_TRUE(plan.header_form.is_known);
    const std::string brief = "\x20\0\0\0x"s;
    const std::string of_long = "\x1f\x1f\2\0\0\0\0\0\0\0"s + "12345678";
    expect_located(plan, brief + brief + of_long + brief + of_long + of_long + brief + brief, 256);
}

TEST(TracePlans, PlanGrowsWithItsStream) {
    std::string text = "trace { packet.header := struct { integer { size = 8; } stream_id; }; };" + kTypes +
                       "stream { id = 0; event.header := struct { u8 id; }; };"
                       "event { stream_id = 0; id = 0; name = a; fields := struct { u8 x; }; };";
    TsdlReader reader;
    ASSERT_TRUE(reader.read(text));
    auto plans = TracePlans::make(*reader.trace_class());
    ASSERT_TRUE(plans);
    const std::string packet = "\0\0\1\1\2\7\7"s;
    const DecodePlan* const plan = plans->plan_for(bytes_of(packet)).value();
    PacketDecoder decoder(*plan);
    ASSERT_TRUE(decoder.start(bytes_of(packet), 0));
    ASSERT_TRUE(decoder.next().value());
    // The decoder is in the middle of a packet, and holds a record.
    const EventRecord& record = decoder.record();
    for (int id = 1; id < 100; ++id) {
        text +=
            fmt::format("event {{ stream_id = 0; id = {}; name = b; fields := struct {{ u8 n; u8 y[n]; }}; }};", id);
        ASSERT_TRUE(reader.read(text));
        EXPECT_EQ(plans->plan_for(bytes_of(packet)).value(), plan);
    }
    EXPECT_EQ(record.event_class->name, "a");
    EXPECT_EQ(record.fields[1].name, "x");
    const auto second = decoder.next();
    ASSERT_TRUE(second) << second.error().message;
    EXPECT_EQ(record.event_class->name, "b");
    EXPECT_EQ(record.fields[1].number, 2U);
    EXPECT_EQ(plans->events_planned(), 100U);
}

TEST(TracePlans, HugePacketHeaderIsNotMultipliedByStreams) {
    constexpr std::size_t kFields = 1000;
    std::string text = "trace { packet.header := struct { integer { size = 32; } stream_id; ";
    for (std::size_t i = 0; i < kFields; ++i) text += fmt::format("integer {{ size = 1; }} f{}; ", i);
    text += "}; };";
    for (std::size_t i = 0; i < 2000; ++i) text += fmt::format("stream {{ id = {}; }};", i);
    const auto trace_class = parse_tsdl(text);
    ASSERT_TRUE(trace_class) << trace_class.error().message;
    auto plans = TracePlans::make(*trace_class);
    ASSERT_TRUE(plans);
    std::size_t planned = 0;
    for (std::uint32_t i = 0; i < 2000; ++i) {
        std::string packet(reinterpret_cast<const char*>(&i), sizeof i);
        packet.resize(4 + kFields / 8);
        planned += plans->plan_for(bytes_of(packet)) ? 1 : 0;
    }
    EXPECT_GT(planned, 1000U);
    EXPECT_LT(planned, 1100U);
}

TEST(TracePlans, PacketOfAnUndeclaredStreamIsRefused) {
    const auto trace_class = parse_tsdl(kTypes +
                                        "trace { packet.header := struct { u8 stream_id; }; };"
                                        "stream { id = 1; }; stream { id = 2; };");
    auto plans = TracePlans::make(*trace_class);
    ASSERT_TRUE(plans);
    const std::string known = "\2";
    const std::string unknown = "\3";
    EXPECT_EQ((*plans->plan_for(bytes_of(known)))->stream_class->id, 2U);
    EXPECT_EQ(plans->plan_for(bytes_of(unknown)).error().message, "stream 3 is not declared");
    EXPECT_FALSE(plans->plan_for({}));
}

}  // namespace
}  // namespace leat::ctf
