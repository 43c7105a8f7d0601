// What the consumer tells readers about time, and when the rings get their room back.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <map>

#include "consumer/consumer.hpp"
#include "support/test_rings.hpp"

namespace leat::consumer {
namespace {

using test::kStartOfTime;
using test::TestRings;

constexpr std::uint64_t kMargin = 1'000;          // ns
constexpr std::uint64_t kWideMargin = 1'000'000;  // ns; used if nobody follows live
constexpr std::uint64_t kPeriod = 100'000'000;    // ns
constexpr std::uint32_t kCpuRings = 2;

// Keeps everything it is given, in order; times in ns, again. It stores the packets that a test tells it to store.
class Journal final : public Output {
  public:
    explicit Journal(const ring::RecordHeaderLayout& clock) : clock_(clock) {}

    struct Kept {
        ctf::PacketHeader header;
        std::vector<std::byte> bytes;  // as they would be sent
    };

    Result<void> write_metadata(std::string_view) override { return {}; }
    Result<void> write_packet(const Packet& packet) override {
        lines.push_back(fmt::format("packet {}", packet.header.stream_instance_id));
        Kept kept{packet.header, {}};
        kept.header.timestamp_begin = clock_.time_of(packet.header.timestamp_begin);
        kept.header.timestamp_end = clock_.time_of(packet.header.timestamp_end);
        const UntrustedBytes rest = packet.other_records();
        kept.bytes = packet.late_records;
        kept.bytes.insert(kept.bytes.end(), rest.begin(), rest.end());
        packets.push_back(std::move(kept));
        if (on_packet) on_packet();
        return {};
    }
    Result<void> announce(std::span<const StreamId> ids) override {
        for (const StreamId id : ids) lines.push_back(fmt::format("announce {}", id.ring));
        return {};
    }
    void write_beacon(StreamId id, std::uint64_t timestamp) override {
        lines.push_back(fmt::format("beacon {}", id.ring));
        EXPECT_GT(clock_.time_of(timestamp), beacons[id.ring]) << "time goes back";
        beacons[id.ring] = clock_.time_of(timestamp);
    }
    void cycle_done(std::uint64_t timestamp) override { horizon = clock_.time_of(timestamp); }
    [[nodiscard]] std::uint64_t stored(StreamId id) const override {
        if (on_stored) on_stored(id.ring);
        return stored_packets;
    }
    [[nodiscard]] std::uint64_t part() const override { return parts; }

    std::vector<std::string> take_lines() { return std::exchange(lines, {}); }

    std::vector<std::string> lines;
    std::vector<Kept> packets;
    std::map<std::uint32_t, std::uint64_t> beacons;  // by ring
    std::uint64_t horizon = 0;
    std::uint64_t stored_packets = ~0ULL;
    std::uint64_t parts = 0;
    std::function<void()> on_packet;
    std::function<void(std::uint32_t ring)> on_stored;

  private:
    ring::RecordHeaderLayout clock_;
};

class HorizonTest : public testing::TestWithParam<ring::HeaderKind> {
  protected:
    HorizonTest() {
        ctf::EventClass event_class{.id = 1, .name = "test:byte"};
        event_class.fields = ctf::StructClass{{{"_byte", ctf::IntegerClass{.size = 8}}}};
        walker_.add(event_class);
    }

    // Writes one event into a ring that belongs to a thread. Its writer reads the time `now`; all others read `later`.
    void write(std::uint64_t now, std::uint32_t thread = 0, std::uint32_t id = 1) {
        write_to(ring_of(thread), now, id);
    }
    void write_to(ring::RingHeader& ring, std::uint64_t now, std::uint32_t id = 1) {
        const std::string staged(1 + ring::kCopySlack, 'x');
        rings_.at(now);
        ring.limit = ring.tail + ring::kMinRingSize;  // as a writer does before it rings
        ASSERT_EQ(rings_.write_to(ring, test::TestEvent{GetParam(), id}, staged.data(), 1),
                  ring::WriteOutcome::kWritten);
    }
    void drain_at(std::uint64_t now) {
        rings_.at(now);
        ASSERT_TRUE(consumer_.drain());
    }
    [[nodiscard]] ring::RingHeader& ring_of(std::uint32_t thread = 0) const {
        return *rings_.map().rings[kCpuRings + thread];
    }
    // What the trace says of a time.
    [[nodiscard]] std::uint64_t whole(std::uint64_t time) const { return layout_.whole_cycles(time); }
    // The times of a packet's records, as a reader sees them.
    using Times = std::vector<std::uint64_t>;
    [[nodiscard]] Times times(std::size_t packet) const {
        const Journal::Kept& kept = output_.packets.at(packet);
        Times times;
        std::uint64_t time = kept.header.timestamp_begin;
        for (UntrustedBytes rest = kept.bytes; !rest.empty();) {
            const ctf::RecordHeaderBytes header = ctf::copy_header(layout_, rest);
            times.push_back(time = ctf::record_timestamp(layout_, header, time));
            rest = rest.subspan(header.size + 1);
        }
        return times;
    }

    TestRings rings_{ring::kMinRingSize, kCpuRings};
    ring::RecordHeaderLayout layout_ = ring::header_layout(GetParam());
    ctf::RecordWalker walker_{layout_, 0};
    Journal output_{layout_};
    std::function<Result<void>()> describe_;
    std::array<Consumer::Source, 1> sources_{{{.rings = &rings_.set(), .walker = &walker_, .wake_after = 0}}};
    Consumer consumer_{sources_, output_, {.trace_uuid = {7}, .clock = &rings_.clock(), .before_cut = [this] {
                                               return describe_ ? describe_() : Result<void>();
                                           }}};
};

constexpr std::uint64_t kNow = kStartOfTime + 1'000'000;
using Lines = std::vector<std::string>;

TEST_P(HorizonTest, WritersWhoWaitSeeASignOfLifeAtEachDrainAndPacket) {
    const std::uint64_t& heartbeat = rings_.set().header().heartbeat;
    EXPECT_EQ(heartbeat, kStartOfTime);
    drain_at(kNow);
    EXPECT_EQ(heartbeat, kNow);
    write(kNow, 0);
    write(kNow, 1);
    output_.on_packet = [&] { rings_.at(kNow + 7'000'000); };  // a slow output
    drain_at(kNow + 5'000);
    EXPECT_EQ(heartbeat, kNow + 7'000'000);
}

TEST_P(HorizonTest, CpuRingsBeginWithAPacketWithoutEvents) {
    ASSERT_TRUE(consumer_.announce_cpu_rings());
    EXPECT_EQ(output_.take_lines(), (Lines{"announce 0", "announce 1", "packet 0", "packet 1"}));
    EXPECT_TRUE(output_.packets[0].bytes.empty());
}

TEST_P(HorizonTest, QuietStreamsHearOfTheTimeWhenAnotherHadEvents) {
    ASSERT_TRUE(consumer_.announce_cpu_rings());
    output_.take_lines();
    write(kNow);
    drain_at(kNow + 5'000);
    // The stream is announced before its packet, and before the others' time passes it. A packet of each known stream
    // makes viewers ask for new ones, also those who wait for that stream alone.
    EXPECT_EQ(output_.take_lines(), (Lines{"announce 2", "packet 0", "packet 1", "packet 2", "beacon 0", "beacon 1"}));
    EXPECT_EQ(output_.horizon, whole(kNow + 5'000 - kMargin));
    EXPECT_LE(output_.beacons[0], output_.horizon);
    EXPECT_GT(output_.beacons[0], kNow);
    EXPECT_TRUE(consumer_.wants_drain()) << "a bell may have been missed";
}

TEST_P(HorizonTest, NobodyIsToldWhatHelpsNobody) {
    ASSERT_TRUE(consumer_.announce_cpu_rings());
    write(kNow);
    drain_at(kNow + 5'000);
    output_.take_lines();
    drain_at(kNow + 40'000);
    drain_at(kNow + 50'000);
    EXPECT_EQ(output_.take_lines(), Lines{});
    EXPECT_FALSE(consumer_.wants_drain());
    EXPECT_EQ(output_.horizon, whole(kNow + 50'000 - kMargin));
    drain_at(kNow + 5'000 + 2 * kPeriod);
    EXPECT_EQ(output_.take_lines(), (Lines{"beacon 0", "beacon 1", "beacon 2"}));
}

TEST_P(HorizonTest, UnknownRingGetsNoBeacon) {
    drain_at(kNow + 10 * kPeriod);
    EXPECT_EQ(output_.take_lines(), Lines{});
}

// Else what comes in all others would be late.
TEST_P(HorizonTest, RingThatIsAheadOfTheClockIsQuarantinedAlone) {
    constexpr std::uint64_t kHour = 3'600'000'000'000;
    write(kNow);
    ring_of().last_timestamp = kNow + kHour + 10'000;
    drain_at(kNow + 5'000);
    ASSERT_EQ(consumer_.quarantined().size(), 1U);
    EXPECT_NE(consumer_.quarantined()[0].find("ahead of the clock"), std::string::npos) << consumer_.quarantined()[0];
    write(kNow + 6'000, 1);
    drain_at(kNow + 7'000);
    ASSERT_EQ(output_.packets.size(), 1U);
    EXPECT_EQ(times(0), (Times{whole(kNow + 6'000)}));
}

// As after a crash of everything, when the machine had been up for hours.
TEST_P(HorizonTest, ClockThatHasStoppedSaysNothingOfARing) {
    const std::uint64_t before = kNow + 36'000'000'000'000;
    write(before);
    drain_at(0);
    EXPECT_TRUE(consumer_.quarantined().empty());
    ASSERT_EQ(output_.packets.size(), 1U);
    EXPECT_EQ(times(0), (Times{whole(before)}));
}

// Several writers read the clock before the consumer did, and their stores became visible after its second look. Each
// such record must get the time that readers were told, or its short header would wrap.
TEST_P(HorizonTest, LateRecordsGetTheTimeThatWasTold) {
    write(kNow);
    drain_at(kNow + 2 * kWideMargin);
    const std::uint64_t told = output_.horizon;
    for (const std::uint64_t before : {20'000U, 594U, 300U, 1U}) write(told - before);
    write(told + 60'000);
    write(told + 60'001);
    drain_at(told + 70'000);
    ASSERT_EQ(output_.packets.size(), 2U);
    EXPECT_EQ(times(0), (Times{whole(kNow)}));
    EXPECT_EQ(output_.packets[1].header.timestamp_begin, told);
    EXPECT_EQ(times(1), (Times{told, told, told, told, whole(told + 60'000), whole(told + 60'001)}));
    EXPECT_EQ(output_.packets[1].header.timestamp_end, whole(told + 60'001));
}

TEST_P(HorizonTest, LateRecordsWithExtendedHeadersToo) {
    const std::uint64_t later = kNow + (1ULL << 33);
    write(kNow);
    drain_at(later);
    const std::uint64_t told = output_.horizon;
    write(told - 20'000);
    write(told - 10'000);
    drain_at(told + 10'000);
    ASSERT_EQ(output_.packets.size(), 2U);
    EXPECT_EQ(times(1), (Times{told, told}));
    EXPECT_EQ(output_.packets[1].header.timestamp_end, told);
}

// Gaps around the longest that a short header tells, from a packet's beginning to its first record and from there on.
TEST_P(HorizonTest, GapsOfTheLengthOfAPeriod) {
    std::uint64_t now = kNow;
    write(now);
    drain_at(now + 5'000);
    Times expected{whole(now)};
    Times read = times(0);
    const std::uint64_t period = layout_.time_period();
    const std::uint64_t cycle = layout_.cycle();
    for (const std::uint64_t gap :
         {period - 2 * cycle, period - cycle - 1, period - cycle, period - cycle + 1, period - 1, period, period + 1}) {
        for (const std::uint64_t later : {gap, gap, std::uint64_t{1}, cycle}) {
            write(now += later);
            expected.push_back(whole(now));
        }
        drain_at(now + 5'000);
        const Times more = times(output_.packets.size() - 1);
        read.insert(read.end(), more.begin(), more.end());
    }
    EXPECT_EQ(read, expected);
}

TEST_P(HorizonTest, LateRecordsOfALiveSessionToo) {
    ASSERT_TRUE(consumer_.announce_cpu_rings());
    write(kNow);
    drain_at(kNow + 50'000);
    const std::uint64_t told = output_.horizon;
    EXPECT_EQ(told, whole(kNow + 50'000 - kMargin));
    write(told - 594);
    write(told - 10);
    drain_at(told + 10'000);
    EXPECT_EQ(times(output_.packets.size() - 1), (Times{told, told}));
}

TEST_P(HorizonTest, RecordInTimeIsLeftAsItIs) {
    write(kNow);
    drain_at(kNow + 2 * kWideMargin);
    write(kNow + kWideMargin);
    drain_at(kNow + 2 * kWideMargin);
    EXPECT_EQ(times(1), (Times{whole(kNow + kWideMargin)}));
    EXPECT_EQ(output_.packets[1].header.timestamp_begin, whole(kNow + kWideMargin));
}

// A thread claims a ring between the two looks. Readers must not pass its first event.
TEST_P(HorizonTest, RingThatIsClaimedInBetweenHoldsTheHorizon) {
    ASSERT_TRUE(consumer_.announce_cpu_rings());
    drain_at(kNow);
    const std::uint64_t told = output_.horizon;
    rings_.set().header().thread_rings_used = 4;
    write(kNow + 1'000, 3);
    drain_at(kNow + 90'000);
    EXPECT_EQ(output_.packets.back().header.stream_instance_id, kCpuRings + 3);
    EXPECT_GE(output_.packets.back().header.timestamp_begin, told);
    EXPECT_GE(times(output_.packets.size() - 1).front(), told);
}

// Programs may register until the second look. Their metadata must be written before the records that need it.
TEST_P(HorizonTest, NothingIsCutWithoutItsMetadata) {
    write(kNow);
    describe_ = [] { return fail(ErrorKind::kIo, "no space left on device"); };
    rings_.at(kNow + 10'000);
    EXPECT_FALSE(consumer_.drain());
    EXPECT_TRUE(output_.packets.empty());
    describe_ = [this]() -> Result<void> {
        EXPECT_TRUE(output_.packets.empty());
        return {};
    };
    drain_at(kNow + 20'000);
    EXPECT_EQ(output_.packets.size(), 1U);
}

// After the consumer has looked at the rings, a record comes, and then events that find no room.
TEST_P(HorizonTest, WhatIsDiscardedAfterTheLookBelongsBehindTheNextRecords) {
    write(kNow);
    output_.on_packet = [this] {
        if (output_.packets.size() > 1) return;
        write(kNow + 1'000);
        ring_of().discarded[0] = 4;
    };
    drain_at(kNow + 5'000);
    drain_at(kNow + 6'000);
    ASSERT_TRUE(consumer_.finish());
    ASSERT_EQ(output_.packets.size(), 3U);
    EXPECT_EQ(output_.packets[1].header.timestamp_end, whole(kNow + 1'000));
    EXPECT_EQ(output_.packets[1].header.events_discarded, 0U) << "they came after its records";
    EXPECT_EQ(output_.packets[2].header.events_discarded, 4U);
}

// During the look at the rings, a first event comes to a ring that readers do not know, and then a later one to a ring
// that they know. Readers must get both or neither.
TEST_P(HorizonTest, RingsThatNobodyHasHeardOfAreLookedAtLast) {
    ring::RingHeader& unknown = *rings_.map().rings[0];
    ring::RingHeader& known = *rings_.map().rings[1];
    output_.stored_packets = 0;
    write_to(known, kNow);
    drain_at(kNow + 5'000);
    output_.take_lines();
    bool is_asked = false;
    output_.on_stored = [&](std::uint32_t) {
        if (std::exchange(is_asked, true)) return;
        write_to(unknown, kNow + 10'000);
        write_to(known, kNow + 10'001);
    };
    drain_at(kNow + 20'000);
    ASSERT_TRUE(is_asked);
    EXPECT_EQ(output_.take_lines(), (Lines{"announce 0", "packet 0", "packet 1"}));
}

TEST_P(HorizonTest, NewPartBeginsEachStreamWithAPacket) {
    ASSERT_TRUE(consumer_.announce_cpu_rings());
    write(kNow);
    drain_at(kNow + 5'000);
    output_.take_lines();
    output_.parts = 1;
    drain_at(kNow + 6'000);
    EXPECT_EQ(Lines(output_.lines.begin(), output_.lines.begin() + 3), (Lines{"packet 0", "packet 1", "packet 2"}));
    output_.take_lines();
    drain_at(kNow + 7'000);
    for (const std::string& line : output_.take_lines()) EXPECT_FALSE(line.starts_with("packet")) << line;
}

TEST_P(HorizonTest, NewPartBeginsStreamsOfUnreadableRecordsToo) {
    ASSERT_TRUE(consumer_.announce_cpu_rings());
    write(kNow);
    drain_at(kNow + 5'000);
    output_.take_lines();
    output_.parts = 1;
    write(kNow + 5'500, 0, 9);  // of an unknown class
    drain_at(kNow + 6'000);
    EXPECT_EQ(Lines(output_.lines.begin(), output_.lines.begin() + 3), (Lines{"packet 0", "packet 1", "packet 2"}));
}

// A writer that commits between two drains must find the bell armed, whatever is stored at that time.
TEST_P(HorizonTest, ArmedBellStaysArmedWhenPacketsAreStored) {
    output_.stored_packets = 0;
    write(kNow);
    for (const std::uint64_t later : {5'000, 6'000, 7'000}) drain_at(kNow + later);
    ASSERT_FALSE(consumer_.wants_drain());
    output_.stored_packets = 1;
    describe_ = [this]() -> Result<void> {
        EXPECT_EQ(ring_of().tail, ring_of().head);
        EXPECT_EQ(ring_of().limit, ring_of().head);
        return {};
    };
    drain_at(kNow + 8'000);
}

TEST_P(HorizonTest, RoomComesBackWhenThePacketIsStored) {
    output_.stored_packets = 0;
    write(kNow);
    drain_at(kNow + 5'000);
    const std::uint64_t head = ring_of().head;
    EXPECT_EQ(ring_of().tail, 0U);
    drain_at(kNow + 6'000);
    EXPECT_EQ(output_.packets.size(), 1U) << "cut twice";
    EXPECT_EQ(ring_of().limit, head) << "the next event rings";
    write(kNow + 7'000);
    drain_at(kNow + 8'000);
    EXPECT_EQ(output_.packets.size(), 2U);
    output_.stored_packets = 1;
    drain_at(kNow + 9'000);
    EXPECT_EQ(ring_of().tail, head);
    output_.stored_packets = 2;
    drain_at(kNow + 10'000);
    EXPECT_EQ(ring_of().tail, ring_of().head);
}

TEST_P(HorizonTest, NobodyRingsWhileThereIsMoreToDrainAnyway) {
    write(kNow);
    drain_at(kNow + 5'000);
    EXPECT_TRUE(consumer_.wants_drain());
    for (const std::uint32_t thread : {0U, 1U})
        EXPECT_EQ(ring_of(thread).limit, ring_of(thread).tail + ring::kMinRingSize);
    drain_at(kNow + 6'000);
    for (const std::uint32_t thread : {0U, 1U}) EXPECT_EQ(ring_of(thread).limit, ring_of(thread).head);
    EXPECT_TRUE(consumer_.wants_drain()) << "a writer may have missed the armed bell";
    drain_at(kNow + 7'000);
    EXPECT_FALSE(consumer_.wants_drain());
}

TEST_P(HorizonTest, RingIsFullWhenNothingIsStored) {
    output_.stored_packets = 0;
    const std::string staged(1000 + ring::kCopySlack, 'x');
    ctf::EventClass event_class{.id = 2, .name = "test:large"};
    event_class.fields =
        ctf::StructClass{{{"_a", ctf::ArrayClass{ctf::FieldClass(ctf::IntegerClass{.size = 8}), 1000}}}};
    walker_.add(event_class);
    std::uint64_t written = 0;
    const auto fill = [&] {
        ring_of().limit = ring_of().tail + ring::kMinRingSize;
        return rings_.write_to(ring_of(), test::TestEvent{GetParam(), 2}, staged.data(), 1000);
    };
    while (fill() == ring::WriteOutcome::kWritten) {
        if (++written % 10 == 0) drain_at(kNow + written);
        ASSERT_LT(written, 100U) << "the ring does not fill";
    }
    EXPECT_GT(written, 50U);
    drain_at(kNow + 1'000);
    EXPECT_EQ(consumer_.totals().events, written);
    output_.stored_packets = ~0ULL;
    drain_at(kNow + 2'000);
    EXPECT_EQ(fill(), ring::WriteOutcome::kWritten);
}

TEST_P(HorizonTest, TooManyUnstoredPacketsLetTheBytesGather) {
    output_.stored_packets = 0;
    for (std::size_t i = 0; i < Consumer::kMaxUnstored + 10; ++i) {
        write(kNow + i * 2'000);
        drain_at(kNow + i * 2'000 + 1'000);
    }
    EXPECT_EQ(output_.packets.size(), Consumer::kMaxUnstored);
    EXPECT_TRUE(consumer_.is_blocked());
    EXPECT_TRUE(consumer_.awaits_output());
    EXPECT_FALSE(consumer_.wants_drain()) << "only the output can change it";
    EXPECT_EQ(ring_of().limit, ring_of().tail + ring::kMinRingSize) << "nobody is to ring";
    output_.stored_packets = 1;
    EXPECT_FALSE(consumer_.release_stored());
    EXPECT_TRUE(consumer_.is_blocked()) << "what gathered is still in the rings";
    drain_at(kNow + kPeriod);
    EXPECT_FALSE(consumer_.is_blocked());
    EXPECT_TRUE(consumer_.awaits_output()) << "no more can be cut, whatever comes";
    ASSERT_EQ(output_.packets.size(), Consumer::kMaxUnstored + 1);
    EXPECT_EQ(consumer_.totals().events, Consumer::kMaxUnstored + 10);
}

TEST_P(HorizonTest, WhatIsNotStoredIsInUse) {
    const auto part_of_ring = [](std::uint64_t bytes) { return static_cast<double>(bytes) / ring::kMinRingSize; };
    output_.stored_packets = 0;
    for (std::uint64_t i = 0; i < 3; ++i) write(kNow + i * 2'000);
    write(kNow + 10'000, 1);
    drain_at(kNow + 20'000);
    EXPECT_EQ(consumer_.fullest(), part_of_ring(ring_of().head));
    write(kNow + 30'000);
    drain_at(kNow + 40'000);
    EXPECT_EQ(consumer_.fullest(), part_of_ring(ring_of().head));
    output_.stored_packets = ~0ULL;
    drain_at(kNow + 50'000);
    EXPECT_EQ(consumer_.fullest(), 0);
}

TEST_P(HorizonTest, NobodyAwaitsAnOutputThatTakesItsTime) {
    output_.stored_packets = 0;
    write(kNow);
    drain_at(kNow + 1'000);
    EXPECT_FALSE(consumer_.awaits_output());
}

TEST_P(HorizonTest, RingThatIsArmedAgainIsLookedAtOnceMore) {
    output_.stored_packets = 0;
    for (std::size_t i = 0; i < Consumer::kMaxUnstored; ++i) {
        write(kNow + i * 2'000);
        drain_at(kNow + i * 2'000 + 1'000);
    }
    for (const std::uint64_t later : {1, 2, 3}) drain_at(kNow + kPeriod + later);
    EXPECT_FALSE(consumer_.wants_drain());
    output_.stored_packets = 1;
    drain_at(kNow + kPeriod + 4);
    EXPECT_TRUE(consumer_.wants_drain()) << "a writer may have missed the armed bell";
    drain_at(kNow + kPeriod + 5);
    EXPECT_FALSE(consumer_.wants_drain());
}

TEST_P(HorizonTest, StreamThatHoldsBackGetsNoBeacon) {
    output_.stored_packets = 0;
    for (std::size_t i = 0; i < Consumer::kMaxUnstored + 1; ++i) {
        write(kNow + i * 2'000);
        drain_at(kNow + i * 2'000 + 1'000);
    }
    const std::uint64_t horizon = output_.horizon;
    output_.take_lines();
    drain_at(kNow + 10 * kPeriod);
    EXPECT_EQ(output_.take_lines(), Lines{});
    EXPECT_EQ(output_.horizon, horizon);
}

INSTANTIATE_TEST_SUITE_P(All, HorizonTest,
                         testing::Values(ring::HeaderKind::kCompact, ring::HeaderKind::kLarge, ring::HeaderKind::kTiny),
                         [](const auto& kind) {
                             if (kind.param == ring::HeaderKind::kTiny) return "Tiny";
                             return kind.param == ring::HeaderKind::kCompact ? "Compact" : "Large";
                         });

}  // namespace
}  // namespace leat::consumer
