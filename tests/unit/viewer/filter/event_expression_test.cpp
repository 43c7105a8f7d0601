#include "viewer/filter/event_expression.hpp"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <span>
#include <string>

#include "ctf/tsdl/tsdl_parser.hpp"

namespace leat::viewer {
namespace {

constexpr const char* kMetadata =
    "typealias integer { size = 8; } := u8;"
    "typealias integer { size = 8; signed = true; } := i8;"
    "trace { major = 1; minor = 8; byte_order = le; };"
    "env { hostname = \"here\"; vpid = 42; };"
    "stream { packet.context := struct { u8 cpu_id; }; event.header := struct { u8 id; };"
    " event.context := struct { u8 vtid; string procname; }; };"
    "event { name = \"app:put\"; id = 0; loglevel = 6;"
    " fields := struct { i8 n; string s; u8 size; u8 list[size]; enum : u8 { RED } color;"
    " struct { u8 inner; } pair; integer { size = 8; encoding = UTF8; } letters[2]; }; };"
    "event { name = \"app:get\"; id = 1; fields := struct { u8 other;"
    " integer { size = 64; } big; floating_point { exp_dig = 8; mant_dig = 24; } "
    "real;"
    " enum : u8 { A, B } tag; variant <tag> { u8 A; string B; } v; }; };";

// A packet of one event of each class.
class EventExpressionTest : public ::testing::Test {
  protected:
    EventExpressionTest() {
        trace_class_ = *ctf::parse_tsdl(kMetadata);
        plan_ = *ctf::make_decode_plan(trace_class_, trace_class_.streams.front());
        using namespace std::string_literals;
        bytes_ =
            "\x03"s  // cpu_id
            "\x00\x07"
            "bash\0"  // app:put: vtid, procname
            "\xFB"
            "hello world\0"  // n = -5, s
            "\x02\x0A\x14"
            "\x00"
            "\x09"
            "ok"  // list, color, pair.inner, letters
            "\x01\x08"
            "sh\0"  // app:get
            "\x64"
            "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF"  // big = 2^64-1
            "\x00\x00\x00\x3F"
            "\x01"
            "text\0"s;  // other = 100, real = 0.5, tag = B, v
        packet_ = {1, &trace_class_, &plan_, &stream_, std::as_bytes(std::span(bytes_)), 8 * bytes_.size()};
        ctf::PacketDecoder decoder(plan_);
        EXPECT_TRUE(decoder.start(packet_.bytes, 0));
        std::size_t found = 0;
        while (found < places_.size()) found += decoder.locate(std::span(places_).subspan(found)).value();
    }

    // Which of the two events it takes: "pg", "p", "g", or "".
    std::string taken(const std::string& text) {
        auto parsed = parse_filter(text);
        if (!parsed) return parsed.error().message;
        EventExpression filter(*std::move(parsed));
        std::string names;
        // Twice: what was learnt of a class must not change it.
        for (int round = 0; round < 2; ++round) {
            names.clear();
            if (filter.takes(packet_, places_[0]).value()) names += 'p';
            if (filter.takes(packet_, places_[1]).value()) names += 'g';
        }
        return names;
    }

    ctf::TraceClass trace_class_;
    ctf::DecodePlan plan_;
    StreamIdentity stream_{.name = "stream"};
    std::string bytes_;
    PacketView packet_;
    std::array<ctf::EventPlace, 2> places_{};
};

TEST_F(EventExpressionTest, NumbersAreSigned) {
    EXPECT_EQ(taken("n == -5"), "p");
    EXPECT_EQ(taken("n < 0 && n >= -0x5"), "p");
    EXPECT_EQ(taken("-n == 5"), "p");
    EXPECT_EQ(taken("n == 011"), "");
    EXPECT_EQ(taken("~n == 4"), "p");
    EXPECT_EQ(taken("other == 'd'"), "g");
    EXPECT_EQ(taken("n"), "p");
    EXPECT_EQ(taken("!n"), "");
}

TEST_F(EventExpressionTest, NumbersMayHaveTheSuffixesOfC) {
    for (const std::string suffix : {"", "u", "U", "l", "UL", "Lu", "ll", "uLL", "LLU"}) {
        EXPECT_EQ(taken("other == 100" + suffix), "g") << suffix;
        EXPECT_EQ(taken("other == 0x64" + suffix + " && big == 0xffffffffffffffff" + suffix), "g") << suffix;
    }
    for (const std::string suffix : {"x", "uu", "lul", "u1", "_", "llll"})
        EXPECT_EQ(taken("other == 100" + suffix),
                  "filter, character 10: a number is expected, not \"100" + suffix + "\"");
}

TEST_F(EventExpressionTest, LargeNumbersAreNotNegative) {
    EXPECT_EQ(taken("big > 10"), "g");
    EXPECT_EQ(taken("big < 0"), "");
    EXPECT_EQ(taken("big == -1"), "g");  // the same bits
    EXPECT_EQ(taken("big > -1"), "g");
    EXPECT_EQ(taken("n == 0xfffffffffffffffb"), "p");
    EXPECT_EQ(taken("(big & (1 << 63)) == (1 << 63)"), "g");
    EXPECT_EQ(taken("(other << 57) > 0"), "g");
    EXPECT_EQ(taken("~other < 0"), "");
    EXPECT_EQ(taken("(n & 0xffffffff) > 0"), "p");
    EXPECT_EQ(taken("big == 18446744073709551615"), "g");
    EXPECT_EQ(taken("big == 0xffffffffffffffff"), "g");
    EXPECT_EQ(taken("big > 9223372036854775808"), "g");
    EXPECT_EQ(taken("n < 9223372036854775808"), "p");
    EXPECT_EQ(taken("big > 1e19"), "g");
    EXPECT_EQ(taken("(big & 0xfffffffffffff000) > 10"), "g");
    EXPECT_EQ(taken("big >> 60 == 15"), "g");
    EXPECT_EQ(taken("-big == 1"), "g");
    EXPECT_EQ(taken("~big == 0"), "g");
}

TEST_F(EventExpressionTest, KeysOfEqualValuesAreEqual) {
    EXPECT_EQ(key_of(real_value(0.0)), key_of(real_value(-0.0)));
    EXPECT_EQ(key_of(real_value(std::numeric_limits<double>::quiet_NaN())), std::nullopt);
    EXPECT_NE(key_of(integer_value(-1)), key_of(unsigned_value(UINT64_MAX)));
    EXPECT_EQ(key_of(integer_value(1)), key_of(unsigned_value(1)));
}

TEST_F(EventExpressionTest, PrecedenceIsThatOfLttng) {
    EXPECT_EQ(taken("2 & 2 == 2"), "pg");
    EXPECT_EQ(taken("5 > 3 > 1"), "");
    EXPECT_EQ(taken("1 || 0 && 0"), "pg");
    EXPECT_EQ(taken("(1 || 0) && 0"), "");
    EXPECT_EQ(taken("1 << 2 & 4"), "pg");
    EXPECT_EQ(taken("1 << 64 == 0"), "");
    EXPECT_EQ(taken("6 ^ 2 | 8"), "pg");
}

TEST_F(EventExpressionTest, TextsArePatterns) {
    EXPECT_EQ(taken(R"(s == "hello*")"), "p");
    EXPECT_EQ(taken(R"("*world" == s)"), "p");
    EXPECT_EQ(taken(R"(s == "hello\*")"), "");
    EXPECT_EQ(taken(R"(s != "hello")"), "p");
    EXPECT_EQ(taken(R"(s < "hello x" && s > "hello")"), "p");
    EXPECT_EQ(taken(R"(letters == "ok")"), "p");
    EXPECT_EQ(taken("s == s"), "p");
}

TEST_F(EventExpressionTest, PartsAndContexts) {
    EXPECT_EQ(taken("list[1] == 20 && pair.inner == 9"), "p");
    EXPECT_EQ(taken("list[2] == 0 || 1"), "");
    EXPECT_EQ(taken("1 || list[2] == 0"), "p");
    EXPECT_EQ(taken("!(n == 0 && list[2] == 0)"), "p");
    EXPECT_EQ(taken("n != 0 && list[2] == 0"), "");
    EXPECT_EQ(taken("!(list[2] == 0)"), "");
    EXPECT_EQ(taken("-list[2] == 0 || 1"), "");
    EXPECT_EQ(taken(R"(1 || n == "x")"), "");
    EXPECT_EQ(taken("$ctx.cpu_id == 3"), "pg");
    EXPECT_EQ(taken("$ctx.vtid == 8"), "g");
    EXPECT_EQ(taken(R"($ctx.procname == "ba*" && $ctx.vpid == 42 && $ctx.hostname == "here")"), "p");
    EXPECT_EQ(taken(R"($name == "app:*")"), "pg");
    EXPECT_EQ(taken(R"($name != "app:put" || n)"), "p");
    EXPECT_EQ(taken("$loglevel <= 6"), "p");
    EXPECT_EQ(taken("color == 0"), "p");
    EXPECT_EQ(taken(R"(v == "text")"), "g");
    EXPECT_EQ(taken("v == 1 || 1"), "");
}

TEST_F(EventExpressionTest, FloatsOnEitherSide) {
    EXPECT_EQ(taken("real == 0.5 && real > 0"), "g");
    EXPECT_EQ(taken("n < -4.5"), "p");
    EXPECT_EQ(taken("real & 1"), "");
    EXPECT_EQ(taken("real"), "g");
    EXPECT_EQ(taken("other == 1e2"), "g");
}

// As with LTTng.
TEST_F(EventExpressionTest, WhatIsMissingOrOfAnotherTypeRefusesTheEvent) {
    EXPECT_EQ(taken("other == 100 || n == -5"), "");
    EXPECT_EQ(taken("!(nosuch == 1)"), "");
    EXPECT_EQ(taken(R"(n == "x" || 1)"), "");
    EXPECT_EQ(taken(R"(!(n == "x"))"), "");
    EXPECT_EQ(taken("list == 1 || 1"), "");
    EXPECT_EQ(taken(R"(s && 1)"), "");
    EXPECT_EQ(taken("pair.nosuch || 1"), "");
    EXPECT_EQ(taken("n.part || 1"), "");
    EXPECT_EQ(taken("n[0] || 1"), "");
}

TEST_F(EventExpressionTest, ConstantsAreForAll) {
    EXPECT_EQ(taken("1"), "pg");
    EXPECT_EQ(taken("0"), "");
    EXPECT_EQ(taken("0.5"), "pg");
    EXPECT_EQ(taken(R"("text")"), "");
}

TEST_F(EventExpressionTest, ErrorsSayWhere) {
    for (const auto& [text, where] : {std::pair("", "character 1"),
                                      {"n ==", "character 5"},
                                      {"n == )", "character 6"},
                                      {"(n", "character 3"},
                                      {"n = 1", "character 3"},
                                      {"a + 1", "character 3"},
                                      {"\"open", "character 1"},
                                      {R"("\x41" == s)", "character 3"},
                                      {"$ctx.", "character 6"},
                                      {"$what", "character 1"},
                                      {"$app.shop", "character 10"},
                                      {"$app.:name", "character 6"},
                                      {"a[x]", "character 3"},
                                      {"a[1", "character 4"},
                                      {"0x", "character 1"},
                                      {"08", "character 1"},
                                      {"18446744073709551616", "character 1"},
                                      {"12abc", "character 1"},
                                      {"a.", "character 3"},
                                      {"'ab'", "character 1"}})
        EXPECT_NE(taken(text).find(where), std::string::npos) << text << ": " << taken(text);
    EXPECT_NE(taken(std::string(100'000, '(')).find("too deep"), std::string::npos);
    EXPECT_NE(taken(std::string(100'000, '!') + "1").find("too deep"), std::string::npos);
    std::string chain = "1";
    for (int i = 0; i < 100'000; ++i) chain += "||1";
    EXPECT_NE(taken(chain).find("too long"), std::string::npos);
}

TEST_F(EventExpressionTest, FieldThatNoEventHasIsAnError) {
    const std::array<const ctf::TraceClass*, 1> classes{&trace_class_};
    const auto check = [&](const char* text) { return EventExpression(*parse_filter(text)).check(classes); };
    EXPECT_TRUE(check("n == 1 && $ctx.vtid && $ctx.vpid && v && pair.inner && list[7]"));
    EXPECT_NE(check("n == 1 && nosuch").error().message.find("nosuch"), std::string::npos);
    EXPECT_FALSE(check("$ctx.n"));
    EXPECT_FALSE(check("vtid"));
    EXPECT_FALSE(check("pair.nosuch"));
}

TEST_F(EventExpressionTest, ValuesOfEvents) {
    EventExpression name(*parse_filter("$name"));
    EXPECT_EQ(name.value(packet_, places_[1]).value().plain, "app:get");
    EventExpression color(*parse_filter("color"));
    const FilterValue value = color.value(packet_, places_[0]).value();
    EXPECT_EQ(value.kind, FilterValue::Kind::kInteger);
    EXPECT_EQ(value.integer, 0);
    EXPECT_EQ(color.value(packet_, places_[1]).value().kind, FilterValue::Kind::kInvalid);
}

TEST_F(EventExpressionTest, MorePlansThanItKeeps) {
    constexpr std::uint64_t kPlans = 4196;
    EventExpression filter(*parse_filter("n == -5"));
    const std::uint64_t first = plan_.number;
    for (std::uint64_t i = 0; i < 2 * kPlans; ++i) {
        plan_.number = first + i % kPlans;
        packet_.number = i + 1;
        ASSERT_TRUE(filter.takes(packet_, places_[0]).value());
        ASSERT_FALSE(filter.takes(packet_, places_[1]).value());
    }
}

TEST_F(EventExpressionTest, PacketThatChangesIsAnError) {
    EventExpression filter(*parse_filter("n == -5"));
    bytes_.assign(bytes_.size(), '\xFF');
    EXPECT_FALSE(filter.takes(packet_, places_[0]));
}

}  // namespace
}  // namespace leat::viewer
