#include "viewer/sink/text_pipeline.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "base/mapped_file.hpp"
#include "base/unique_fd.hpp"
#include "ctf/tsdl/tsdl_parser.hpp"

namespace leat::viewer {
namespace {

constexpr std::size_t kPackets = 100;
constexpr std::size_t kEvents = 201;  // of a packet

// Packets of events with their times, the number of the packet, and a text.
class TextPipelineTest : public ::testing::Test {
  protected:
    TextPipelineTest() {
        trace_class_ = *ctf::parse_tsdl(
            "clock { name = m; };"
            "typealias integer { size = 8; map = clock.m.value; } := ts8;"
            "trace { major = 1; minor = 8; byte_order = le; };"
            "stream { event.header := struct { ts8 timestamp; }; };"
            "event { name = e; fields := struct { integer { size = 8; } n; string s; }; };");
        plan_ = *ctf::make_decode_plan(trace_class_, trace_class_.streams.front());
        for (std::size_t packet = 0; packet < kPackets; ++packet)
            for (std::size_t i = 0; i < kEvents; ++i)
                bytes_.at(packet) += {static_cast<char>(i), static_cast<char>(packet), 'x', '\n', '\0'};
    }

    PacketView packet(std::size_t number) const {
        const auto bytes = std::as_bytes(std::span(bytes_.at(number)));
        return {number + 1, &trace_class_, &plan_, &stream_, bytes, 8 * bytes.size()};
    }

    static std::vector<ctf::EventPlace> places_in(const PacketView& packet) {
        ctf::PacketDecoder decoder(*packet.plan);
        EXPECT_TRUE(decoder.start(packet.bytes, 0));
        std::vector<ctf::EventPlace> places(kEvents);
        std::size_t found = 0;
        while (found < kEvents) found += decoder.locate(std::span(places).subspan(found)).value();
        return places;
    }

    // All events of the packets, those of two neighbours in turn.
    struct Events {
        std::vector<PacketView> packets{};
        std::vector<ctf::EventPlace> places{};
        std::vector<FoundEvent> found{};
    };
    Events alternating() const {
        Events events;
        for (std::size_t i = 0; i < kPackets; ++i) events.packets.push_back(packet(i));
        events.places = places_in(events.packets.front());
        for (std::size_t i = 0; i < kPackets; i += 2)
            for (const ctf::EventPlace& place : events.places)
                for (const std::size_t packet : {i, i + 1}) events.found.push_back({&events.packets[packet], &place});
        return events;
    }

    // In runs of different lengths.
    static Result<void> add(TextPipeline& pipeline, std::span<const FoundEvent> events) {
        for (std::size_t run = 1; !events.empty(); run = run % 50 + 1) {
            const auto taken = events.first(std::min(run, events.size()));
            LEAT_TRY(pipeline.add(taken));
            events = events.subspan(taken.size());
        }
        return {};
    }

    static std::string text_of(const Events& events, std::size_t threads) {
        const UniqueFd file(::memfd_create("text", MFD_CLOEXEC));
        TextPipeline pipeline({}, file.get(), threads);
        EXPECT_TRUE(add(pipeline, events.found));
        EXPECT_TRUE(pipeline.flush());
        return read_file(fmt::format("/proc/self/fd/{}", file.get()), SIZE_MAX).value();
    }

    ctf::TraceClass trace_class_;
    ctf::DecodePlan plan_;
    StreamIdentity stream_{.name = "stream"};
    std::array<std::string, kPackets> bytes_;
};

TEST_F(TextPipelineTest, SeveralThreadsWriteWhatOneWrites) {
    TextBuffer expected(-1);
    std::array renderers{LineRenderer({}), LineRenderer({})};  // for which packets do not alternate
    std::optional<Moment> previous;
    const Events events = alternating();
    for (const auto& [packet, place] : events.found) {
        ASSERT_TRUE(renderers.at(packet->number % 2).append(expected, *packet, *place, previous));
        previous = Moment{place->time_ns, place->cycles};
    }
    for (const std::size_t threads : {0, 1, 3}) EXPECT_EQ(text_of(events, threads), expected.text()) << threads;
}

TEST_F(TextPipelineTest, ReaderThatGoesAwayIsNoError) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe(ends.data()), 0);
    const UniqueFd output(ends[1]);
    ::close(ends[0]);
    std::signal(SIGPIPE, SIG_IGN);
    TextPipeline pipeline({}, output.get(), 1);
    const Events events = alternating();
    ASSERT_TRUE(add(pipeline, events.found));
    EXPECT_TRUE(pipeline.flush());
    EXPECT_TRUE(pipeline.is_closed());
}

// Someone may cut a file while it is read.
TEST_F(TextPipelineTest, PacketThatHasChangedIsAnErrorAfterTheEventsBeforeIt) {
    const auto places = places_in(packet(0));
    std::string changed = bytes_.front();
    changed.replace(5 * 100, std::string::npos, changed.size() - 5 * 100, 'x');
    PacketView view = packet(0);
    view.bytes = std::as_bytes(std::span(changed));
    const UniqueFd file(::memfd_create("text", MFD_CLOEXEC));
    TextPipeline pipeline({}, file.get(), 1);
    std::vector<FoundEvent> found;
    for (const ctf::EventPlace& place : places) found.push_back({&view, &place});
    ASSERT_TRUE(pipeline.add(found));
    const auto flushed = pipeline.flush();
    ASSERT_FALSE(flushed);
    EXPECT_EQ(flushed.error().message, "stream: a packet has changed while it was read");
    const std::string text = read_file(fmt::format("/proc/self/fd/{}", file.get()), SIZE_MAX).value();
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 100);
}

// What is gone reads as zeros, of which lines can be made.
TEST_F(TextPipelineTest, LinesOfAFileThatWasCutOffAreNotShown) {
    const UniqueFd cut(::memfd_create("cut", MFD_CLOEXEC));
    const std::size_t size = bytes_.front().size();
    ASSERT_EQ(::write(cut.get(), bytes_.front().data(), size), static_cast<ssize_t>(size));
    constexpr std::size_t kNoSmallFile = 1U << 20U;
    ASSERT_EQ(::ftruncate(cut.get(), kNoSmallFile), 0);
    const MappedFile mapped = MappedFile::of_file(cut.get(), kNoSmallFile).value();
    PacketView view = packet(0);
    view.bytes = mapped.bytes().first(size);
    view.mapping = &mapped;
    const PacketView whole = packet(1);
    const auto places = places_in(view);
    ASSERT_EQ(::ftruncate(cut.get(), 0), 0);
    const UniqueFd file(::memfd_create("text", MFD_CLOEXEC));
    TextPipeline pipeline({}, file.get(), 1);
    std::vector<FoundEvent> found;
    for (std::size_t i = 0; i < places.size(); ++i) found.push_back({i < 100 ? &whole : &view, &places[i]});
    ASSERT_TRUE(pipeline.add(found));
    const auto flushed = pipeline.flush();
    ASSERT_FALSE(flushed);
    EXPECT_EQ(flushed.error().message, "stream: a packet has changed while it was read");
    const std::string text = read_file(fmt::format("/proc/self/fd/{}", file.get()), SIZE_MAX).value();
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 100);
    EXPECT_EQ(text.find("n = 0"), std::string::npos);
}

}  // namespace
}  // namespace leat::viewer
