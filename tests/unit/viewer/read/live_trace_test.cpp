#include "viewer/read/live_trace.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

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
    EXPECT_LT(grown.tokens_read(), 2 * whole.tokens_read());
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
            EXPECT_EQ(stream.message().event->event_class->name, "e0");
        }
        for (int i = 0; i < 200; ++i) ASSERT_TRUE(trace.append_metadata(bytes_of(event(200 * id + i))));
        const auto model = trace.model();
        ASSERT_TRUE(model) << model.error().message;
        ASSERT_TRUE((*model)->plans.plan_for(packet));
        if (stream.message().kind == Message::Kind::kEvent) {
            EXPECT_EQ(stream.message().event->event_class->name, "e0");
        }
        const auto advanced = stream.advance();
        if (!advanced) break;
    }
    EXPECT_EQ(events, 2);
}

}  // namespace
}  // namespace leat::viewer
