#include "viewer/sink/line_renderer.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "ctf/decode/trace_plans.hpp"
#include "ctf/tsdl/tsdl_parser.hpp"

namespace leat::viewer {
namespace {

// Packets of one event, of many streams or many plans. What a renderer keeps of them is bounded: what it has forgotten,
// it makes anew.
class LineRendererTest : public ::testing::Test {
  protected:
    struct Numbered {
        std::array<char, 2> bytes;  // cpu_id, n
        ctf::DecodePlan* plan;
        StreamIdentity* stream;
    };

    LineRendererTest() { declare("cpu_id"); }

    // The context of packets.
    void declare(const std::string& name) {
        name_ = name;
        trace_class_ =
            *ctf::parse_tsdl(fmt::format("typealias integer {{ size = 8; }} := u8;"
                                         "trace {{ major = 1; minor = 8; byte_order = le; }};"
                                         "stream {{ packet.context := struct {{ u8 {}; }}; }};"
                                         "event {{ name = e; fields := struct {{ u8 n; }}; }};",
                                         name));
    }

    void make_packets(std::size_t plans, std::size_t streams) {
        const ctf::DecodePlan plan = *ctf::make_decode_plan(trace_class_, trace_class_.streams.front());
        plans_.assign(plans, plan);
        for (std::size_t i = 0; i < plans; ++i) plans_[i].number += i;
        streams_.resize(streams);
        for (std::size_t i = 0; i < std::max(plans, streams); ++i)
            packets_.push_back(
                {{static_cast<char>(i % 100), static_cast<char>(i % 99)}, &plans_[i % plans], &streams_[i % streams]});
    }

    std::string line_of(std::size_t number) { return line_of(renderer_, number); }
    std::string line_of(LineRenderer& renderer, std::size_t number) {
        const Numbered& packet = packets_[number];
        TextBuffer buffer(-1);
        const PacketView view{number + 1,
                              &trace_class_,
                              packet.plan,
                              packet.stream,
                              std::as_bytes(std::span(packet.bytes)),
                              8 * packet.bytes.size()};
        EXPECT_TRUE(renderer.append(buffer, view, {.begin = 8, .payload = 8}, std::nullopt));
        return std::string(buffer.text());
    }
    [[nodiscard]] std::string expected(std::size_t number) const {
        return fmt::format("e: {{ {} = {} }}, {{ n = {} }}\n", name_, number % 100, number % 99);
    }

    // In order, and then the last ones again, which were there at both sides of the border.
    void expect_all() {
        for (std::size_t i = 0; i < packets_.size(); ++i) ASSERT_EQ(line_of(i), expected(i));
        for (std::size_t i = packets_.size() - 4096; i < packets_.size(); ++i) ASSERT_EQ(line_of(i), expected(i));
        EXPECT_EQ(line_of(0), expected(0));
    }

    LineRenderer renderer_{TextOptions{}};
    std::string name_;
    ctf::TraceClass trace_class_;
    std::vector<ctf::DecodePlan> plans_;
    std::vector<StreamIdentity> streams_;
    std::vector<Numbered> packets_;
};

TEST_F(LineRendererTest, MorePlansThanItKeeps) {
    make_packets(4196, 1);
    expect_all();
}

TEST_F(LineRendererTest, MoreStreamsThanItKeeps) {
    make_packets(1, 65636);
    expect_all();
}

// Their texts are kept with the streams, and not with the packets.
TEST_F(LineRendererTest, MoreStreamsWithLongContextsThanItKeeps) {
    declare("cpu_id_of_the_ring_that_this_packet_and_its_events_come_from");
    make_packets(1, 65636);
    expect_all();
}

// Those of one digit are just short enough.
TEST_F(LineRendererTest, ShortAndLongContextsOfPacketsThatAlternate) {
    declare(std::string(ShortText::kMostSize - std::string_view("{  = 7 }").size(), 'c'));
    make_packets(1, 1);
    packets_.resize(1);
    for (char i = 1; i < 20; ++i) packets_.push_back({{i, i}, packets_[0].plan, packets_[0].stream});
    LineRenderer json{TextOptions{.format = LineFormat::kJson}};
    for (const std::size_t step : {1U, 9U, 7U})
        for (std::size_t i = 0; i < 3 * packets_.size(); ++i) {
            const std::size_t number = i * step % packets_.size();
            ASSERT_EQ(line_of(number), expected(number));
            ASSERT_EQ(line_of(json, number),
                      fmt::format("{{\"name\":\"e\",\"packet_context\":{{\"{}\":{}}},\"payload\":{{\"n\":{}}}}}\n",
                                  name_, number, number));
        }
}

// In a live session, another stream's packet may bring classes of events while this one's events are being told.
TEST(LineRenderer, PlanThatGrowsWithinAPacket) {
    constexpr std::size_t kSequences = 1000;
    ctf::TsdlReader reader;
    std::string text =
        "typealias integer { size = 8; } := u8;"
        "trace { major = 1; minor = 8; byte_order = le; };"
        "stream { event.header := struct { u8 id; }; };"
        "event { name = e; id = 0; fields := struct { u8 n; }; };";
    ASSERT_TRUE(reader.read(text));
    auto plans = ctf::TracePlans::make(*reader.trace_class());
    ASSERT_TRUE(plans);
    const std::string bytes = std::string("\0\7\1", 3) + std::string(kSequences, '\1') + std::string(kSequences, '\2');
    const UntrustedBytes packet = std::as_bytes(std::span(bytes));
    const StreamIdentity stream;
    const PacketView view{1, reader.trace_class(), plans->plan_for(packet).value(), &stream, packet, 8 * packet.size()};
    LineRenderer renderer{TextOptions{}};
    TextBuffer buffer(-1);
    ASSERT_TRUE(renderer.append(buffer, view, {.begin = 0, .payload = 8, .event = 0}, std::nullopt));

    std::string fields;
    for (std::size_t i = 0; i < kSequences; ++i) fields += fmt::format("u8 n{};", i);
    for (std::size_t i = 0; i < kSequences; ++i) fields += fmt::format("u8 s{0}[n{0}];", i);
    text += "event { name = f; id = 1; fields := struct {" + fields + "}; };";
    ASSERT_TRUE(reader.read(text));
    ASSERT_EQ(plans->plan_for(packet).value(), view.plan);
    ASSERT_TRUE(renderer.append(buffer, view, {.begin = 16, .payload = 24, .event = 1}, std::nullopt));

    std::string expected;
    for (std::size_t i = 0; i < kSequences; ++i) expected += fmt::format("{}n{} = 1", i == 0 ? "" : ", ", i);
    for (std::size_t i = 0; i < kSequences; ++i) expected += fmt::format(", s{} = [ [0] = 2 ]", i);
    EXPECT_EQ(buffer.text(), "e: { n = 7 }\nf: { " + expected + " }\n");
}

}  // namespace
}  // namespace leat::viewer
