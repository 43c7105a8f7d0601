#include "viewer/read/live_trace.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "support/byte_metadata.hpp"
#include "viewer/read/live_stream.hpp"

namespace leat::viewer {
namespace {

UntrustedBytes bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

const std::string kHead =
    "/* CTF 1.8 */ trace { major = 1; minor = 8; byte_order = le; };"
    "typealias integer { size = 16; } := u16;"
    "stream { event.header := struct { u16 id; }; };";

std::string event(int id) {
    return fmt::format("event {{ name = e{}; id = {}; fields := struct {{ u16 n; u16 a[n]; }}; }};\n", id, id);
}

TEST(LiveTrace, ManyPiecesCostAsMuchAsOne) {
    constexpr int kEvents = 10'000;
    LiveTrace whole(0);
    LiveTrace grown(1);
    ASSERT_TRUE(whole.append_metadata(bytes_of(kHead)));
    ASSERT_TRUE(grown.append_metadata(bytes_of(kHead)));
    const std::string packet(1, '\0');
    for (int id = 0; id < kEvents; ++id) {
        const std::string text = event(id);
        ASSERT_TRUE(whole.append_metadata(bytes_of(text)));
        ASSERT_TRUE(grown.append_metadata(bytes_of(text)));
        const auto model = grown.model();
        ASSERT_TRUE(model) << model.error().message;
        ASSERT_TRUE((*model)->plans.plan_for(bytes_of(packet)));
    }
    const auto model = whole.model();
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_EQ((*model)->trace_class->streams.front().events.size(), std::size_t{kEvents});
    EXPECT_EQ(*(*model)->trace_class, *(*grown.model())->trace_class);
    EXPECT_EQ((*grown.model())->plans.events_planned(), std::size_t{kEvents});
    EXPECT_LT(grown.parts_read(), 2 * whole.parts_read());
}

TEST(LiveTrace, FragmentsOfCtf2CutAnywhereAreReadWhole) {
    const std::string head = "\x1e{\"type\":\"preamble\",\"version\":2}\n\x1e{\"type\":\"data-stream-class\"}\n";
    const std::string text =
        head + "\x1e{\"type\":\"event-record-class\"}\n\x1e{\"type\":\"event-record-class\",\"id\":1}\n";
    for (std::size_t cut = 1; cut < text.size(); ++cut) {
        LiveTrace trace(0);
        ASSERT_TRUE(trace.append_metadata(bytes_of(text.substr(0, cut))));
        const auto begun = trace.model();
        ASSERT_TRUE(begun) << cut << ": " << begun.error().message;
        EXPECT_EQ(*begun == nullptr, cut < head.size() - 1) << cut;
        ASSERT_TRUE(trace.append_metadata(bytes_of(text.substr(cut))));
        const auto model = trace.model();
        ASSERT_TRUE(model) << cut << ": " << model.error().message;
        EXPECT_EQ((*model)->trace_class->streams.front().events.size(), 2U) << cut;
    }
}

TEST(LiveTrace, UnitThatIsCutWaitsForItsRest) {
    const std::string text = kHead + event(0) + event(1);
    for (std::size_t cut = 1; cut < text.size(); ++cut) {
        LiveTrace trace(0);
        ASSERT_TRUE(trace.append_metadata(bytes_of(text.substr(0, cut))));
        ASSERT_TRUE(trace.model()) << cut;
        ASSERT_TRUE(trace.append_metadata(bytes_of(text.substr(cut))));
        const auto model = trace.model();
        ASSERT_TRUE(model) << cut << ": " << model.error().message;
        ASSERT_NE(*model, nullptr);
        EXPECT_EQ((*model)->trace_class->streams.front().events.size(), 2U) << cut;
    }
}

// Each stream of the trace asks.
TEST(LiveTrace, ErrorIsToldWhoeverAsks) {
    const std::string head = "/* CTF 1.8 */ trace { major = 1; minor = 8; byte_order = le; ";
    for (const std::string& text : {
             head + "}; nonsense;",
             head + "packet.header := struct { variant { integer { size = 8; } a; } v; }; };",  // no plan
         }) {
        LiveTrace trace(0);
        ASSERT_TRUE(trace.append_metadata(bytes_of(text)));
        const auto first = trace.model();
        ASSERT_FALSE(first) << text;
        for (int i = 0; i < 2; ++i) {
            const auto again = trace.model();
            ASSERT_FALSE(again) << text;
            EXPECT_EQ(again.error().message, first.error().message);
        }
    }
}

TEST(LiveTrace, ErrorIsToldOfMetadataThatCannotBeAppended) {
    LiveTrace trace(0);
    const auto appended = trace.append_metadata(bytes_of("nonsense"));
    ASSERT_FALSE(appended);
    for (int i = 0; i < 2; ++i) {
        const auto model = trace.model();
        ASSERT_FALSE(model);
        EXPECT_EQ(model.error().message, appended.error().message);
    }
}

TEST(LiveTrace, WhatIsDeclaredBeforeAnErrorServes) {
    LiveTrace trace(0);
    ASSERT_TRUE(trace.append_metadata(bytes_of(test::kByteMetadata + "nonsense;")));
    const auto model = trace.model();
    ASSERT_TRUE(model);
    ASSERT_NE(*model, nullptr);
    EXPECT_EQ((*model)->trace_class->streams.size(), 1U);
    EXPECT_TRUE(trace.take_failure());
}

TEST(LiveTrace, WhatWasDeclaredBeforeAnErrorStays) {
    LiveTrace trace(0);
    ASSERT_TRUE(trace.append_metadata(bytes_of(test::kByteMetadata)));
    ASSERT_TRUE(trace.model());
    ASSERT_TRUE(trace.append_metadata(bytes_of("nonsense;")));
    EXPECT_EQ(trace.nanoseconds(3), 3'000'000'000);
    const auto model = trace.model();
    ASSERT_TRUE(model);
    EXPECT_NE(*model, nullptr);
    EXPECT_EQ(trace.nanoseconds(4), 4'000'000'000);
    EXPECT_TRUE(trace.take_failure());
    EXPECT_FALSE(trace.take_failure());
}

// Of an event.
std::string name_of(const Message& message) {
    return message.packet->plan->events[message.place.event].event_class->name;
}

TEST(LiveTrace, MetadataGrowsUnderAPacketThatIsBeingRead) {
    LiveTrace trace(0);
    ASSERT_TRUE(trace.append_metadata(bytes_of(kHead + event(0))));
    LiveStream stream(StreamIdentity{.name = "s"});
    std::vector<std::byte> packet(12);
    packet[2] = std::byte{1};  // event 0, one element; event 0, no element; event 0...
    packet[4] = std::byte{7};
    ASSERT_TRUE(stream.feed(*trace.model(), packet, 0));
    int events = 0;
    for (int id = 1; stream.has_message(); ++id) {
        if (stream.message().kind == Message::Kind::kEvent) {
            ++events;
            EXPECT_EQ(name_of(stream.message()), "e0");
        }
        for (int i = 0; i < 200; ++i) ASSERT_TRUE(trace.append_metadata(bytes_of(event(200 * id + i))));
        const auto model = trace.model();
        ASSERT_TRUE(model) << model.error().message;
        ASSERT_TRUE((*model)->plans.plan_for(packet));
        if (stream.message().kind == Message::Kind::kEvent) {
            EXPECT_EQ(name_of(stream.message()), "e0");
        }
        const auto advanced = stream.advance();
        if (!advanced) break;
    }
    EXPECT_EQ(events, 2);
}

const std::string kTwoClasses =
    "/* CTF 1.8 */ typealias integer { size = 16; } := u16;"
    "trace { major = 1; minor = 8; byte_order = le; packet.header := struct { u16 stream_id; }; };"
    "stream { id = 0; packet.context := struct { u16 packet_seq_num; }; event.header := struct { u16 id; }; };"
    "stream { id = 1; packet.context := struct { u16 packet_seq_num; }; event.header := struct { u16 id; }; };"
    "event { name = of_0; id = 0; stream_id = 0; }; event { name = of_1; id = 0; stream_id = 1; };";

// With one event.
std::vector<std::byte> packet_of_class(int stream_id, int sequence_number) {
    return {std::byte(stream_id), {}, std::byte(sequence_number), {}, {}, {}};
}

std::vector<std::string> read_to_its_end(LiveStream& stream) {
    std::vector<std::string> seen;
    while (stream.has_message()) {
        const Message& message = stream.message();
        if (message.kind == Message::Kind::kEvent) seen.push_back(name_of(message));
        if (message.kind == Message::Kind::kDiscardedPackets) seen.push_back(fmt::format("-{}", *message.loss.count));
        if (!stream.advance()) break;
    }
    return seen;
}

TEST(LiveStream, PacketOfAnotherClassThanTheOneBeforeIsReadByItsOwn) {
    LiveTrace trace(0);
    ASSERT_TRUE(trace.append_metadata(bytes_of(kTwoClasses)));
    LiveStream stream(StreamIdentity{.name = "s"});
    for (const int stream_id : {0, 0, 1, 1, 0}) {
        ASSERT_TRUE(stream.feed(*trace.model(), packet_of_class(stream_id, 0), 0));
        EXPECT_EQ(read_to_its_end(stream), std::vector{fmt::format("of_{}", stream_id)});
        EXPECT_EQ(stream.identity().class_id, static_cast<std::uint64_t>(stream_id));
    }
    EXPECT_FALSE(stream.feed(*trace.model(), packet_of_class(2, 0), 0));
}

// They were shown before, and then it was told what was missing between them.
TEST(LiveStream, NothingIsMissingBehindUnwantedPackets) {
    LiveTrace trace(0);
    ASSERT_TRUE(trace.append_metadata(bytes_of(kTwoClasses)));
    LiveStream stream(StreamIdentity{.name = "s"});
    std::vector<std::string> seen;
    for (const int number : {1, 2, 3, 5, 6}) {
        const auto is_wanted = [&](std::uint64_t stream_class_id, const ctf::PacketProperties& packet) {
            return stream_class_id == 0 && packet.sequence_number != 3U && packet.sequence_number != 5U;
        };
        ASSERT_TRUE(stream.feed(*trace.model(), packet_of_class(0, number), 0, is_wanted));
        std::ranges::copy(read_to_its_end(stream), std::back_inserter(seen));
        EXPECT_TRUE(stream.is_hungry());
    }
    EXPECT_EQ(seen, (std::vector<std::string>{"of_0", "of_0", "of_0"}));
}

}  // namespace
}  // namespace leat::viewer
