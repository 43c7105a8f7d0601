#include "viewer/read/event_decoder.hpp"

#include <gtest/gtest.h>

#include <array>
#include <span>
#include <string>
#include <vector>

#include "ctf/tsdl/tsdl_parser.hpp"

namespace leat::viewer {
namespace {

class EventDecoderTest : public ::testing::Test {
  protected:
    EventDecoderTest() {
        trace_class_ = *ctf::parse_tsdl(
            "typealias integer { size = 8; } := u8;"
            "trace { major = 1; minor = 8; byte_order = le; };"
            "stream { packet.context := struct { u8 cpu_id; }; };"
            "event { name = e; fields := struct { u8 n; }; };");
        plan_ = *ctf::make_decode_plan(trace_class_, trace_class_.streams.front());
    }

    PacketView packet(std::uint64_t number, std::size_t stream) const {
        return {number, &trace_class_, &plan_, &streams_[stream], std::as_bytes(std::span(bytes_)), 8 * bytes_.size()};
    }
    static std::uint64_t value_of(EventDecoder& decoder, const PacketView& packet, std::uint64_t event) {
        const ctf::EventPlace place{.begin = 8 * (event + 1), .payload = 8 * (event + 1)};
        return decoder.decode(packet, place).value()->fields[1].number;
    }

    ctf::TraceClass trace_class_;
    ctf::DecodePlan plan_;
    std::array<StreamIdentity, 2> streams_{};
    std::string bytes_{"\x01\x02\x03\x04"};
};

TEST_F(EventDecoderTest, EventsInAnyOrder) {
    EventDecoder decoder;
    for (const std::uint64_t event : {2U, 0U, 1U, 2U}) EXPECT_EQ(value_of(decoder, packet(1, 0), event), event + 2);
}

// Otherwise each event of streams that alternate would cost a look at its packet's context, which may be large.
TEST_F(EventDecoderTest, StreamsOfOnePlanThatAlternateKeepTheirPackets) {
    EventDecoder decoder;
    const PacketView first = packet(1, 0);
    const PacketView second = packet(2, 1);
    ctf::PacketDecoder* const of_first = decoder.enter(first).value();
    ctf::PacketDecoder* const of_second = decoder.enter(second).value();
    EXPECT_NE(of_first, of_second);
    ASSERT_TRUE(of_first->decode({.begin = 24, .payload = 24}));
    EXPECT_EQ(decoder.enter(second).value(), of_second);
    EXPECT_EQ(decoder.enter(first).value(), of_first);
    EXPECT_EQ(of_first->position(), 32U);  // and was not begun anew
}

TEST_F(EventDecoderTest, PacketThatHasChangedIsAnErrorAndHarmsNoOther) {
    EventDecoder decoder;
    PacketView shorter = packet(1, 0);
    shorter.content_bits = 8;
    EXPECT_FALSE(decoder.enter(shorter));
    EXPECT_FALSE(decoder.enter(shorter));
    EXPECT_EQ(value_of(decoder, packet(2, 0), 0), 2U);
}

// What is forgotten is made anew, and nothing leads to it any more.
TEST_F(EventDecoderTest, MoreStreamsThanItKeeps) {
    constexpr std::size_t kStreams = 4196;
    std::vector<StreamIdentity> streams(kStreams);
    EventDecoder decoder;
    const auto expect_right = [&](std::size_t stream) {
        PacketView view = packet(stream + 1, 0);
        view.stream = &streams[stream];
        ASSERT_EQ(value_of(decoder, view, stream % 3), stream % 3 + 2);
    };
    for (std::size_t stream = 0; stream < kStreams; ++stream) expect_right(stream);
    for (std::size_t stream = 0; stream < kStreams; ++stream) expect_right(stream);
}

}  // namespace
}  // namespace leat::viewer
