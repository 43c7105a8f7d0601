#include "viewer/stats/interval_meter.hpp"

#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

#include "ctf/decode/packet_decoder.hpp"
#include "ctf/tsdl/tsdl_parser.hpp"
#include "viewer/filter/filter_expression.hpp"

namespace leat::viewer {
namespace {

// Events "a" and "b" of a key. Event i is at time i.
class IntervalMeterTest : public ::testing::Test {
  protected:
    struct Event {
        char name;
        int key;
    };
    void add(IntervalMeter& meter, const std::vector<Event>& events) {
        for (const auto& [name, key] : events)
            bytes_ += {static_cast<char>(name - 'a'), static_cast<char>(++time_), static_cast<char>(key)};
        const PacketView packet{.number = 1,
                                .trace_class = &trace_class_,
                                .plan = &plan_,
                                .stream = &stream_,
                                .bytes = std::as_bytes(std::span(bytes_)),
                                .content_bits = 8 * bytes_.size()};
        ctf::PacketDecoder decoder(plan_);
        EXPECT_TRUE(decoder.start(packet.bytes, 0));
        std::vector<ctf::EventPlace> places(events.size());
        std::size_t found = 0;
        while (found < places.size()) found += decoder.locate(std::span(places).subspan(found)).value();
        for (const ctf::EventPlace& place : places) EXPECT_TRUE(meter.add(packet, place));
    }
    static std::vector<EventExpression> key() {
        std::vector<EventExpression> keys;
        keys.emplace_back(*parse_filter("k"));
        return keys;
    }

    ctf::TraceClass trace_class_ = *ctf::parse_tsdl(
        "typealias integer { size = 8; } := u8;"
        "clock { name = m; };"
        "typealias integer { size = 8; map = clock.m.value; } := ts8;"
        "trace { major = 1; minor = 8; byte_order = le; };"
        "stream { event.header := struct { u8 id; ts8 timestamp; }; };"
        "event { name = \"a\"; id = 0; fields := struct { u8 k; }; };"
        "event { name = \"b\"; id = 1; fields := struct { u8 k; }; };");
    ctf::DecodePlan plan_ = *ctf::make_decode_plan(trace_class_, trace_class_.streams.front());
    StreamIdentity stream_{.name = "stream"};
    std::string bytes_{};
    int time_ = 0;
};

TEST_F(IntervalMeterTest, FromOneToTheOtherOfItsKey) {
    IntervalMeter meter("a", "b", key());
    add(meter, {{'a', 1}, {'a', 2}, {'b', 1}, {'b', 3}, {'a', 2}, {'b', 2}});
    EXPECT_EQ(meter.histogram().count(), 2U);
    EXPECT_EQ(meter.histogram().least(), 1U);
    EXPECT_EQ(meter.histogram().most(), 2U);
    EXPECT_EQ(meter.open(), 1U) << "begun again";
    EXPECT_EQ(meter.ended_without_begin(), 1U);
    EXPECT_EQ(meter.forgotten(), 0U);
}

TEST_F(IntervalMeterTest, OneTooManyEndsTheOldest) {
    IntervalMeter meter("a", "b", key(), 2);
    add(meter, {{'a', 1}, {'a', 2}, {'a', 1}, {'a', 3}, {'b', 1}, {'b', 2}, {'b', 3}});
    EXPECT_EQ(meter.histogram().count(), 2U);
    EXPECT_EQ(meter.forgotten(), 1U);
    EXPECT_EQ(meter.open(), 2U) << "1 was begun again, and 2 was the oldest then";
    EXPECT_EQ(meter.ended_without_begin(), 1U);
}

}  // namespace
}  // namespace leat::viewer
