#include "viewer/merge/merge.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "support/scratch_directory.hpp"
#include "support/written_stream.hpp"

namespace leat::viewer {
namespace {

using test::WrittenStream;

class MergeTest : public testing::Test {
  protected:
    MergeTest() { write_metadata(test::kWrittenMetadata); }

    void write_metadata(std::string_view text) const { std::ofstream(directory_.path() / "metadata") << text; }

    // Everything in its order, and the error at the end, if any.
    std::vector<std::string> told(Merge::Order order = Merge::Order::kByTime) const {
        const auto traces = open_traces({directory_.path()});
        if (!traces) return {traces.error().message};
        auto merge = Merge::make(*traces, INT64_MIN, order).value();
        std::vector<std::string> told;
        auto is_there = merge.next();
        for (; is_there && *is_there; is_there = merge.next()) {
            if (merge.events().empty()) told.push_back(text_of(merge.message()));
            for (const FoundEvent& event : merge.events()) told.push_back(text_of(event));
        }
        if (!is_there) told.push_back(is_there.error().message);
        return told;
    }

    // Whatever the error says.
    std::vector<std::string> told_before_error(Merge::Order order = Merge::Order::kByTime) const {
        std::vector<std::string> told = this->told(order);
        if (!told.empty() && told.back().starts_with(directory_.path().string())) told.back() = WrittenStream::kError;
        return told;
    }

    static std::string text_of(const Message& message) {
        return fmt::format("{} {}", message.kind == Message::Kind::kPacketBegin ? "begin" : "end",
                           *message.stream->instance_id);
    }

    static std::string text_of(const FoundEvent& event) {
        return fmt::format("event {} {}", *event.packet->stream->instance_id,
                           std::to_integer<unsigned>(event.packet->bytes[event.place->payload / 8]) +
                               std::to_integer<unsigned>(event.packet->bytes[event.place->payload / 8 + 1]) * 256);
    }

    test::ScratchDirectory directory_;
};

// One message after the other, each the oldest of those that come next; of one age, that of the first stream. Up to an
// error, such as a time that goes back.
std::vector<std::string> merged(std::vector<WrittenStream>& streams) {
    std::vector<std::string> all;
    std::uint64_t now = 0;
    while (true) {
        WrittenStream* first = nullptr;
        for (WrittenStream& stream : streams) {
            if (stream.told().empty()) continue;
            if (first == nullptr || stream.told().front().time < first->told().front().time) first = &stream;
        }
        if (first == nullptr) return all;
        all.push_back(first->told().front().time < now ? WrittenStream::kError : first->told().front().what);
        if (all.back() == WrittenStream::kError) return all;
        now = first->told().front().time;
        first->told().pop_front();
    }
}

// Each stream up to its own error, of which there is one at the end.
std::vector<std::string> one_after_the_other(const std::vector<WrittenStream>& streams) {
    std::vector<std::string> all;
    bool is_any_unsound = false;
    for (const WrittenStream& stream : streams) {
        std::vector<WrittenStream> alone{stream};
        std::ranges::move(merged(alone), std::back_inserter(all));
        if (all.back() != WrittenStream::kError) continue;
        all.pop_back();
        is_any_unsound = true;
    }
    if (is_any_unsound) all.emplace_back(WrittenStream::kError);
    return all;
}

// Most are of one age or the next. Where one stream waits, others tell many in a row; and some are so far from each
// other that a merge has no numbers for both at once.
std::uint64_t later(std::uint64_t time, std::mt19937_64& random) {
    constexpr std::uint64_t kFar = std::uint64_t{1} << 61;
    if (time < 2 * kFar && random() % 200 == 0) return time + kFar;
    return time + (random() % 40 == 0 ? 30 : random() % 3);
}

std::string long_before_1970(std::string metadata) {
    constexpr std::string_view kFrequency = "freq = 1000000000;";
    return metadata.insert(metadata.find(kFrequency) + kFrequency.size(), " offset_s = -9000000000;");
}

// Packets of any number of events, more than are found at once, too; many of one age, before 1970 and later.
TEST_F(MergeTest, TellsAllStreamsAsOneAfterTheOtherWould) {
    std::mt19937_64 random(1);  // NOLINT(bugprone-random-generator-seed): the same each time
    for (int round = 0; round < 40; ++round) {
        write_metadata(round % 2 == 0 ? test::kWrittenMetadata : long_before_1970(test::kWrittenMetadata));
        std::vector<WrittenStream> streams;
        for (std::uint64_t left = 1 + random() % 12; left != 0; --left) {
            WrittenStream& stream = streams.emplace_back(streams.size());
            std::uint64_t time = random() % 100;
            for (std::uint64_t packets = 1 + random() % 4; packets != 0; --packets) {
                std::vector<std::uint64_t> times(1 + random() % (random() % 4 == 0 ? 2000 : 20));
                for (std::uint64_t& of_event : times) of_event = time = later(time, random);
                stream.add_packet(times);
            }
            stream.write(directory_.path());
        }
        ASSERT_EQ(told(Merge::Order::kAny), one_after_the_other(streams)) << round;
        ASSERT_EQ(told(), merged(streams)) << round;
        for (const WrittenStream& stream : streams) stream.remove(directory_.path());
    }
}

// So many that slices of time are sorted. Some have one packet, others many small ones, some are busier than others;
// in some, time goes back, or there is an error.
TEST_F(MergeTest, TellsManyStreamsAsOneAfterTheOtherWould) {
    std::mt19937_64 random(2);  // NOLINT(bugprone-random-generator-seed): the same each time
    const auto is_one_in = [&](std::uint64_t count) { return random() % count == 0; };
    for (int round = 0; round < 8; ++round) {
        const std::uint64_t most_events = round % 2 == 0 ? 500 : 60;
        const bool is_unsound = round % 4 >= 2;
        const bool is_even = round % 3 == 0;
        std::vector<WrittenStream> streams;
        for (std::uint64_t left = 48 + random() % 60; left != 0; --left) {
            WrittenStream& stream = streams.emplace_back(streams.size());
            const std::uint64_t pause = is_even ? 30 : 1 + random() % 100;
            std::uint64_t time = random() % 100;
            for (std::uint64_t packets = 1 + random() % 3; packets != 0; --packets) {
                std::vector<std::uint64_t> times(1 + random() % most_events);
                for (std::uint64_t& of_event : times) of_event = time = later(time, random) + random() % pause;
                if (is_unsound && is_one_in(100)) {
                    const auto from = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
                    const auto to = is_one_in(2) ? times.end() : std::next(from);
                    const std::uint64_t back = std::min<std::uint64_t>(*from, is_one_in(2) ? 500 : 20'000);
                    std::for_each(from, to, [&](std::uint64_t& of_event) { of_event -= back; });
                }
                stream.add_packet(times, is_unsound && packets == 1 && is_one_in(30));
            }
            stream.write(directory_.path());
        }
        ASSERT_EQ(told_before_error(Merge::Order::kAny), one_after_the_other(streams)) << round;
        ASSERT_EQ(told_before_error(), merged(streams)) << round;
        for (const WrittenStream& stream : streams) stream.remove(directory_.path());
    }
}

// In one of many streams, for one event or for all that follow; a little, or to before all that comes next.
TEST_F(MergeTest, SliceEndsWhereTimeGoesBack) {
    constexpr std::uint64_t kStreams = 60;
    constexpr std::uint64_t kEvents = 1000;
    constexpr std::uint64_t kPause = 30;
    for (const std::uint64_t dip : {700, 750})
        for (const std::uint64_t length : {std::uint64_t{1}, kEvents})
            for (const std::uint64_t back : {50, 500, 20'000}) {
                std::vector<WrittenStream> streams;
                for (std::uint64_t number = 0; number < kStreams; ++number) {
                    std::vector<std::uint64_t> times(kEvents);
                    for (std::uint64_t event = 0; event < kEvents; ++event) {
                        const bool is_back = number == 7 && event >= dip && event < dip + length;
                        times[event] = event * kPause + number - (is_back ? back : 0);
                    }
                    streams.emplace_back(number).add_packet(times);
                    streams.back().write(directory_.path());
                }
                ASSERT_EQ(told_before_error(), merged(streams)) << dip << " " << length << " " << back;
            }
}

TEST_F(MergeTest, EventsInARowEndWhereTimeGoesBack) {
    WrittenStream unsound(0);
    std::vector<std::uint64_t> times(100);
    std::iota(times.begin(), times.end(), 1);
    times[90] = 50;
    unsound.add_packet(times);
    unsound.write(directory_.path());
    const std::vector<std::string> all = told();
    ASSERT_EQ(all.size(), 92U);
    EXPECT_EQ(all[90], "event 0 90");
    EXPECT_TRUE(all[91].ends_with("time goes back by 40 ns, from one message of the trace to the next")) << all[91];
}

TEST_F(MergeTest, EventsBeforeAnErrorAreTold) {
    WrittenStream sound(0);
    sound.add_packet({1, 4, 6});
    sound.write(directory_.path());
    WrittenStream unsound(1);
    unsound.add_packet({2, 5, 3, 6});
    unsound.write(directory_.path());
    const std::vector<std::string> expected{
        "begin 0",
        "event 0 1",
        "begin 1",
        "event 1 1",
        "event 0 2",
        "event 1 2",
        (directory_.path() / "stream_001: time goes back by 2 ns, from one message of the trace to the next").string()};
    EXPECT_EQ(told(), expected);
}

}  // namespace
}  // namespace leat::viewer
