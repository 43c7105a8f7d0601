#include "consumer/consumer.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <functional>
#include <map>
#include <utility>

#include "base/memory_place.hpp"
#include "ctf/record/record_header.hpp"
#include "support/patience.hpp"
#include "support/skip.hpp"
#include "support/test_rings.hpp"

namespace leat::consumer {
namespace {

using test::kStartOfTime;
using test::TestRings;

constexpr std::size_t kRecordSize = ring::kCompactHeader.short_size + 1;  // and one byte of payload
constexpr int kTag = ring::kCompactHeader.all_ones();

// Keeps what it is given. It fails as often as `failures_left` says, and when `room` is used up.
class KeepingOutput final : public Output {
  public:
    struct Kept {
        StreamId stream;
        ctf::PacketHeader header;
        std::vector<std::byte> records;
    };

    Result<void> write_metadata(std::string_view) override { return {}; }
    Result<void> write_packet(const Packet& packet) override {
        if (failures_left > 0) {
            --failures_left;
            return fail(ErrorKind::kIo, "no space left on device");
        }
        if (packets.size() == room) return fail(ErrorKind::kIo, "no space left on device");
        packets.push_back({packet.stream, packet.header, {packet.records.begin(), packet.records.end()}});
        return {};
    }

    [[nodiscard]] std::uint64_t stored(StreamId /*stream*/) const override {
        when_asked();
        return stored_packets;
    }

    std::vector<Kept> packets{};
    std::uint64_t stored_packets = ~0ULL;  // of each stream
    std::function<void()> when_asked = [] {};
    int failures_left = 0;
    std::size_t room = ~std::size_t{0};  // packets
};

ctf::RecordWalker walker_of_one_byte_events() {
    ctf::RecordWalker walker(ring::kCompactHeader, 0);
    ctf::EventClass event_class{.id = 1, .name = "test:byte"};
    event_class.fields = ctf::StructClass{{{"_byte", ctf::IntegerClass{.size = 8}}}};
    walker.add(event_class);
    return walker;
}

class ConsumerTest : public testing::Test {
  protected:
    explicit ConsumerTest(std::size_t max_packet_size = ~std::size_t{0})
        : consumer_(sources(), output_, {.trace_uuid = {7}, .max_packet_size = max_packet_size}) {}

    [[nodiscard]] std::array<Consumer::Source, 1> sources() const {
        return {{{.rings = &rings_.set(),
                  .walker = &walker_,
                  .stream_class_id = 0,
                  .thread_stream_class_id = 1,
                  .wake_after = 100}}};
    }

    // Writes one event into a ring that belongs to a thread; `thread` counts those rings.
    void write(std::uint64_t now, std::uint32_t thread = 0) {
        const std::string staged(1 + ring::kCopySlack, 'x');
        rings_.at(now);
        ASSERT_EQ(rings_.write_to(header(thread), test::TestEvent{ring::HeaderKind::kCompact, 1}, staged.data(), 1),
                  ring::WriteOutcome::kWritten);
    }
    void write_to_cpu_ring(std::uint64_t now) {
        const std::string staged(1 + ring::kCopySlack, 'x');
        rings_.at(now);
        ASSERT_EQ(
            rings_.write_to(*rings_.map().rings[0], test::TestEvent{ring::HeaderKind::kCompact, 1}, staged.data(), 1),
            ring::WriteOutcome::kWritten);
    }
    // Writes one that the walker does not know.
    void write_unknown(std::uint64_t now) {
        const std::string staged(1 + ring::kCopySlack, 'x');
        rings_.at(now);
        ASSERT_EQ(rings_.write_to(header(), test::TestEvent{ring::HeaderKind::kCompact, 9}, staged.data(), 1),
                  ring::WriteOutcome::kWritten);
    }
    // Makes the record at position `at` swallow the next one: it becomes a record of an event class with as many bytes.
    void make_one_of_two(std::size_t at = 0) {
        ctf::EventClass event_class{.id = 3, .name = "test:both"};
        event_class.fields =
            ctf::StructClass{{{"_a", ctf::ArrayClass{ctf::FieldClass(ctf::IntegerClass{.size = 8}), 6}}}};
        walker_.add(event_class);
        auto* const first = reinterpret_cast<char*>(&header()) + ring::kPageSize + at;  // NOLINT(*-reinterpret-cast)
        *first = static_cast<char>((*first & ~kTag) | 3);
    }
    [[nodiscard]] ring::RingHeader& header(std::uint32_t thread = 0) const {
        return *rings_.map().rings[rings_.own_ring_index() + thread];
    }
    [[nodiscard]] std::uint64_t instance(std::uint32_t thread) const { return rings_.own_ring_index() + thread; }

    TestRings rings_;
    ctf::RecordWalker walker_ = walker_of_one_byte_events();
    KeepingOutput output_;
    Consumer consumer_;
};

// A session's thread may begin later than the programs that it records.
TEST_F(ConsumerTest, RecordsThatAreOlderThanTheConsumerAreCut) {
    const std::string staged(1 + ring::kCopySlack, 'x');
    for (const std::uint64_t time : {30U, 200'000'000U, 900'000'000U}) {
        rings_.at(test::kStartOfTime + time);
        ASSERT_EQ(
            rings_.write_to(*rings_.map().rings[0], test::TestEvent{ring::HeaderKind::kCompact, 1}, staged.data(), 1),
            ring::WriteOutcome::kWritten);
    }
    Consumer late(sources(), output_, {.trace_uuid = {7}});
    ASSERT_TRUE(late.drain());
    EXPECT_EQ(late.totals().events, 3U);
    EXPECT_EQ(late.discarded(), 0U);
}

// Two streams: their last packets, without records, still fit, and tell what was left out.
TEST_F(ConsumerTest, LimitIsExactAndWhatComesAfterItIsCounted) {
    constexpr std::uint64_t kMax = 8 * ctf::kPacketHeaderSize + 10 * kRecordSize + kRecordSize / 2;
    SizeLimit limit(kMax);
    Consumer limited(sources(), output_, {.trace_uuid = {7}, .limit = &limit});
    for (std::uint64_t i = 0; i < 100; ++i) write(kStartOfTime + i, i % 2);
    ASSERT_TRUE(limited.drain());
    EXPECT_TRUE(limit.is_reached());
    const std::uint64_t events = limited.totals().events;
    EXPECT_EQ(events + limited.beyond_limit(), 100U);
    write(kStartOfTime + 200);
    ASSERT_TRUE(limited.drain());
    ASSERT_TRUE(limited.finish());
    EXPECT_EQ(limited.totals().events, events);
    EXPECT_EQ(limited.beyond_limit(), 101U - events);
    EXPECT_EQ(limited.discarded(), 101U - events);
    EXPECT_EQ(limited.totals().left_in_rings, 0U);
    std::uint64_t told = 0;
    std::map<std::uint64_t, std::uint64_t> told_by;
    for (const KeepingOutput::Kept& packet : output_.packets)
        told_by[packet.header.stream_instance_id] = packet.header.events_discarded;
    for (const auto& [stream, count] : told_by) told += count;
    EXPECT_EQ(told, 101U - events);
    EXPECT_EQ(limit.used(), limited.totals().bytes);
    EXPECT_LE(limit.used(), kMax);
    EXPECT_GE(header().tail, header().head) << "writers get their room back";
}

// Who was killed had stored them, or not. They count, and are no more by that.
TEST_F(ConsumerTest, PacketsThatComeAgainAreWithinTheLimit) {
    auto progress = *Progress::create(std::array{rings_.set().geometry().ring_count()});
    output_.stored_packets = 0;
    Consumer killed(sources(), output_, {.trace_uuid = {7}, .progress = &progress});
    for (std::uint64_t i = 0; i < 20; ++i) {
        write(kStartOfTime + i);
        ASSERT_TRUE(killed.drain());
    }
    const std::vector<KeepingOutput::Kept> before = std::exchange(output_.packets, {});
    SizeLimit limit(progress.bytes(), progress.bytes());
    Consumer next(sources(), output_, {.trace_uuid = {7}, .progress = &progress, .limit = &limit});
    write(kStartOfTime + 100);
    ASSERT_TRUE(next.drain());
    ASSERT_EQ(output_.packets.size(), before.size());
    for (std::size_t i = 0; i < before.size(); ++i) {
        EXPECT_EQ(output_.packets[i].header.packet_seq_num, before[i].header.packet_seq_num);
        EXPECT_EQ(output_.packets[i].records, before[i].records);
    }
    EXPECT_EQ(next.beyond_limit(), 1U);
    EXPECT_EQ(limit.used(), progress.bytes());
}

// Of packets that were too many to be kept, or whose page is not of the time of the others.
TEST_F(ConsumerTest, NumbersThatMayBeUsedAreNotUsedAgain) {
    auto progress = *Progress::create(std::array{rings_.set().geometry().ring_count()});
    const StreamId stream{0, rings_.set().geometry().cpu_rings};
    progress.save(stream, {.sequence_number = 5, .timestamp = kStartOfTime});
    progress.plan(stream, {.before = {.sequence_number = 70}, .size = ctf::kPacketHeaderSize});
    write(kStartOfTime + 1);
    Consumer next(sources(), output_, {.trace_uuid = {7}, .progress = &progress});
    ASSERT_TRUE(next.drain());
    ASSERT_FALSE(output_.packets.empty());
    EXPECT_EQ(output_.packets.front().header.packet_seq_num, 71U);
}

// Programs say how many rings they use, and may do so between the two looks at that.
TEST_F(ConsumerTest, RingThatIsKnownAndComesBetweenTwoLooksHasNothingToLeaveOutYet) {
    auto progress = *Progress::create(std::array{rings_.set().geometry().ring_count()});
    Consumer killed(sources(), output_, {.trace_uuid = {7}, .progress = &progress});
    write(kStartOfTime + 1);
    ASSERT_TRUE(killed.drain());
    auto& used = rings_.set().header().thread_rings_used;
    const auto before = std::exchange(used, 0);
    Consumer next(sources(), output_, {.trace_uuid = {7}, .progress = &progress});
    output_.stored_packets = 0;  // so it is asked at the next look
    write_to_cpu_ring(kStartOfTime + 2);
    ASSERT_TRUE(next.drain());
    output_.when_asked = [&] { used = before; };
    next.leave_out_rest();
    ASSERT_TRUE(next.drain());
    EXPECT_EQ(used, before);
    write(kStartOfTime + 3);
    ASSERT_TRUE(next.drain());
    EXPECT_EQ(next.beyond_limit(), 1U);
}

TEST_F(ConsumerTest, WhatIsLeftOutIsCountedAndTold) {
    write(kStartOfTime + 10);
    ASSERT_TRUE(consumer_.drain());
    consumer_.leave_out_rest();
    write(kStartOfTime + 20);
    write(kStartOfTime + 30);
    ASSERT_TRUE(consumer_.drain());
    ASSERT_TRUE(consumer_.finish());
    EXPECT_EQ(consumer_.totals().events, 1U);
    EXPECT_EQ(consumer_.beyond_limit(), 2U);
    ASSERT_EQ(output_.packets.size(), 2U);
    EXPECT_EQ(output_.packets[1].header.events_discarded, 2U);
    EXPECT_TRUE(output_.packets[1].records.empty());
}

TEST_F(ConsumerTest, NothingNewGivesNoPacket) {
    ASSERT_TRUE(consumer_.drain());
    ASSERT_TRUE(consumer_.finish());
    EXPECT_TRUE(output_.packets.empty());
}

TEST_F(ConsumerTest, PacketSaysWhatIsInIt) {
    write(kStartOfTime + 10);
    write(kStartOfTime + 20);
    ASSERT_TRUE(consumer_.drain());
    ASSERT_EQ(output_.packets.size(), 1U);
    const ctf::PacketHeader& header = output_.packets[0].header;
    EXPECT_EQ(header.uuid, ctf::Uuid{7});
    EXPECT_EQ(header.stream_instance_id, instance(0));
    EXPECT_EQ(header.cpu_or_thread_ring, 0U) << "the first ring of a thread";
    EXPECT_EQ(header.stream_id, 1U);
    EXPECT_EQ(header.timestamp_begin, kStartOfTime);
    EXPECT_EQ(header.timestamp_end, kStartOfTime + 20);
    EXPECT_EQ(header.content_size, (ctf::kPacketHeaderSize + 2 * kRecordSize) * 8);
    EXPECT_EQ(header.packet_size, header.content_size);
    EXPECT_EQ(header.packet_seq_num, 0U);
    EXPECT_EQ(header.events_discarded, 0U);
    EXPECT_EQ(output_.packets[0].records.size(), 2 * kRecordSize);
}

TEST_F(ConsumerTest, PacketsOfAStreamTouchAndCount) {
    for (const std::uint64_t now : {10, 20, 20, 20, 35}) {
        write(kStartOfTime + now);
        ASSERT_TRUE(consumer_.drain());
    }
    ASSERT_EQ(output_.packets.size(), 5U);
    for (std::size_t i = 1; i < output_.packets.size(); ++i) {
        const ctf::PacketHeader& before = output_.packets[i - 1].header;
        EXPECT_EQ(output_.packets[i].header.timestamp_begin,
                  std::max(before.timestamp_end, before.timestamp_begin + 1));
        EXPECT_EQ(output_.packets[i].header.packet_seq_num, i);
    }
}

// Bells ring after 100 bytes here.
TEST_F(ConsumerTest, NearestBellIsKnown) {
    write(kStartOfTime);
    ASSERT_TRUE(consumer_.drain());
    EXPECT_EQ(consumer_.nearest_bell(), 0) << "a new ring of a thread rings at its first record";
    for (std::uint64_t i = 1; i <= 3; ++i) write(kStartOfTime + i);
    write(kStartOfTime + 4, 1);
    ASSERT_TRUE(consumer_.drain());
    EXPECT_EQ(consumer_.nearest_bell(), 3 * kRecordSize / 100.0);
    ASSERT_TRUE(consumer_.drain());
    EXPECT_EQ(consumer_.nearest_bell(), 0);
    header().limit = ring::kMinRingSize;  // as a writer does that rings
    for (std::uint64_t i = 1; i <= 40; ++i) write(kStartOfTime + 10 + i);
    ASSERT_TRUE(consumer_.drain());
    EXPECT_EQ(consumer_.nearest_bell(), 40 * kRecordSize / 100.0);
}

// A few large packets that are not stored leave no room for the bell: nobody would hear that writers find the ring
// full.
TEST_F(ConsumerTest, OutputIsAwaitedWhereABellHasNoRoom) {
    output_.stored_packets = 0;
    std::uint64_t now = kStartOfTime;
    const auto fill_up_to = [&](std::uint64_t head) {
        header().limit = ring::kMinRingSize;  // as a writer does that rings
        while (header().head + kRecordSize <= head) write(++now);
        ASSERT_TRUE(consumer_.drain());
    };
    fill_up_to(ring::kMinRingSize / 2);
    EXPECT_FALSE(consumer_.awaits_output());
    fill_up_to(ring::kMinRingSize - 100 - 2 * kRecordSize);
    EXPECT_FALSE(consumer_.awaits_output());
    fill_up_to(ring::kMinRingSize - 50);
    EXPECT_FALSE(consumer_.is_blocked());
    EXPECT_TRUE(consumer_.awaits_output());
    output_.stored_packets = 2;
    EXPECT_FALSE(consumer_.release_stored());
    EXPECT_FALSE(consumer_.awaits_output());
}

TEST_F(ConsumerTest, EachRingIsAStreamOfItsOwn) {
    write(kStartOfTime + 10, 0);
    write(kStartOfTime + 11, 2);
    ASSERT_TRUE(consumer_.drain());
    ASSERT_EQ(output_.packets.size(), 2U);
    EXPECT_EQ(output_.packets[1].header.stream_instance_id, instance(2));
    EXPECT_EQ(output_.packets[1].header.packet_seq_num, 0U);
    EXPECT_EQ(consumer_.totals().streams, 2U);
    EXPECT_EQ(consumer_.totals().events, 2U);
}

// Programs write as soon as they have the rings. The output may be opened later.
TEST_F(ConsumerTest, RecordsOlderThanTheConsumerAreInItsFirstPacket) {
    write_to_cpu_ring(kStartOfTime + 10);
    write_to_cpu_ring(kStartOfTime + 20);
    Consumer late(sources(), output_, {.trace_uuid = {7}});
    ASSERT_TRUE(late.drain());
    ASSERT_EQ(output_.packets.size(), 1U);
    EXPECT_EQ(output_.packets[0].header.timestamp_begin, kStartOfTime);
    EXPECT_EQ(output_.packets[0].header.timestamp_end, kStartOfTime + 20);
    EXPECT_EQ(output_.packets[0].records.size(), 2 * kRecordSize);
    EXPECT_EQ(late.totals().events, 2U);
    EXPECT_EQ(late.unreadable(0), 0U);
}

// A reader places a count of discarded events between the end of the last packet and the end of the packet that carries
// it. Events that were discarded after a packet was cut belong after that packet, so the next packet must carry them.
TEST_F(ConsumerTest, DiscardedIsToldByTheNextPacket) {
    write(kStartOfTime + 10);
    header().discarded[0] = 5;
    ASSERT_TRUE(consumer_.drain());
    write(kStartOfTime + 20);
    header().discarded[0] = 6;
    ASSERT_TRUE(consumer_.drain());
    ASSERT_EQ(output_.packets.size(), 2U);
    EXPECT_EQ(output_.packets[0].header.events_discarded, 0U);
    EXPECT_EQ(output_.packets[1].header.events_discarded, 5U);
}

TEST_F(ConsumerTest, FinishTellsTheRest) {
    write(kStartOfTime + 10);
    ASSERT_TRUE(consumer_.drain());
    header().discarded[1] = 3;
    ASSERT_TRUE(consumer_.finish());
    ASSERT_EQ(output_.packets.size(), 2U);
    EXPECT_TRUE(output_.packets[1].records.empty());
    EXPECT_EQ(output_.packets[1].header.events_discarded, 3U);
    EXPECT_EQ(output_.packets[1].header.timestamp_begin, kStartOfTime + 10);
    EXPECT_EQ(output_.packets[1].header.timestamp_end, kStartOfTime + 10);
    ASSERT_TRUE(consumer_.finish());
    EXPECT_EQ(output_.packets.size(), 2U) << "told twice";
}

// A count in the very first packet of a stream does not tell a reader how many events were discarded.
TEST_F(ConsumerTest, FinishOfAStreamWithoutPacketsTakesTwo) {
    header().discarded[0] = 3;
    ASSERT_TRUE(consumer_.finish());
    ASSERT_EQ(output_.packets.size(), 2U);
    EXPECT_EQ(output_.packets[0].header.events_discarded, 0U);
    EXPECT_EQ(output_.packets[1].header.events_discarded, 3U);
    EXPECT_EQ(output_.packets[1].header.packet_seq_num, 1U);
}

TEST_F(ConsumerTest, FailedFinishIsTriedAgainFromWhereItStopped) {
    header().discarded[0] = 3;
    output_.failures_left = 1;
    EXPECT_FALSE(consumer_.finish());
    ASSERT_TRUE(consumer_.finish());
    ASSERT_EQ(output_.packets.size(), 2U);
    EXPECT_EQ(output_.packets[0].header.events_discarded, 0U);
    EXPECT_EQ(output_.packets[1].header.events_discarded, 3U);
}

TEST_F(ConsumerTest, CountThatGoesBackIsNotToldAgain) {
    write(kStartOfTime + 10);
    header().discarded[0] = 9;
    ASSERT_TRUE(consumer_.drain());
    header().discarded[0] = 2;
    write(kStartOfTime + 20);
    ASSERT_TRUE(consumer_.drain());
    ASSERT_TRUE(consumer_.finish());
    EXPECT_EQ(output_.packets.back().header.events_discarded, 9U);
}

TEST_F(ConsumerTest, WhatTheOutputRefusesComesAgain) {
    write(kStartOfTime + 10);
    output_.failures_left = 1;
    const auto drained = consumer_.drain();
    ASSERT_FALSE(drained);
    EXPECT_EQ(drained.error().message, "no space left on device");
    EXPECT_EQ(consumer_.totals().events, 0U);
    write(kStartOfTime + 20);
    ASSERT_TRUE(consumer_.drain());
    ASSERT_EQ(output_.packets.size(), 1U);
    EXPECT_EQ(output_.packets[0].records.size(), 2 * kRecordSize);
    EXPECT_EQ(output_.packets[0].header.timestamp_begin, kStartOfTime);
    EXPECT_EQ(output_.packets[0].header.packet_seq_num, 0U);
    EXPECT_EQ(consumer_.totals().events, 2U);
}

TEST_F(ConsumerTest, FailureOfOneRingDoesNotStopTheOthers) {
    write(kStartOfTime + 10, 0);
    write(kStartOfTime + 10, 1);
    output_.failures_left = 1;
    EXPECT_FALSE(consumer_.drain());
    ASSERT_EQ(output_.packets.size(), 1U);
    EXPECT_EQ(output_.packets[0].header.stream_instance_id, instance(1));
}

TEST_F(ConsumerTest, RingThatLiesIsQuarantinedAlone) {
    write(kStartOfTime + 10, 0);
    header(0).head = ring::kMinRingSize + 1;
    write(kStartOfTime + 10, 1);
    ASSERT_TRUE(consumer_.drain());
    ASSERT_EQ(consumer_.quarantined().size(), 1U);
    EXPECT_NE(consumer_.quarantined()[0].find(fmt::format("ring {}: ", instance(0))), std::string::npos);
    ASSERT_EQ(output_.packets.size(), 1U);
    EXPECT_EQ(output_.packets[0].header.stream_instance_id, instance(1));
    // The ring stays given up, even when it looks right again.
    header(0).head = kRecordSize;
    write(kStartOfTime + 20, 1);
    ASSERT_TRUE(consumer_.drain());
    EXPECT_EQ(consumer_.quarantined().size(), 1U);
    EXPECT_EQ(output_.packets.size(), 2U);
}

TEST_F(ConsumerTest, RecordsInFrontOfRubbishAreKept) {
    write(kStartOfTime + 10);
    write(kStartOfTime + 11);
    header().head += 3;
    ASSERT_TRUE(consumer_.drain());
    ASSERT_EQ(output_.packets.size(), 1U);
    EXPECT_EQ(output_.packets[0].records.size(), 2 * kRecordSize);
    EXPECT_TRUE(consumer_.quarantined().empty());
}

// Two records are unreadable. A third one is readable, but nobody knows where it begins.
TEST_F(ConsumerTest, WhatCannotBeReadIsCountedAndTheRingGoesOn) {
    write(kStartOfTime + 10);
    write_unknown(kStartOfTime + 20);
    write_unknown(kStartOfTime + 30);
    write(kStartOfTime + 40);
    ASSERT_TRUE(consumer_.drain());
    EXPECT_EQ(consumer_.totals().events, 1U);
    EXPECT_EQ(consumer_.unreadable(), 3U);
    EXPECT_EQ(consumer_.discarded(), 3U);
    write(kStartOfTime + 50);
    ASSERT_TRUE(consumer_.drain());
    EXPECT_EQ(consumer_.totals().events, 2U);
    EXPECT_EQ(consumer_.unreadable(), 3U);
    ASSERT_EQ(output_.packets.size(), 2U);
    EXPECT_EQ(output_.packets[1].header.events_discarded, 3U) << "readers are told";
    EXPECT_EQ(output_.packets[1].header.timestamp_end, kStartOfTime + 50);
    EXPECT_EQ(header().tail, header().head) << "writers have their room";
}

TEST_F(ConsumerTest, RingThatBeginsUnreadableGoesOnToo) {
    write_unknown(kStartOfTime + 10);
    ASSERT_TRUE(consumer_.drain());
    write(kStartOfTime + (1ULL << 40));  // far from what was lost; its header has the full time
    ASSERT_TRUE(consumer_.drain());
    ASSERT_TRUE(consumer_.finish());
    EXPECT_EQ(consumer_.totals().events, 1U);
    EXPECT_EQ(consumer_.unreadable(), 1U);
    EXPECT_EQ(output_.packets.back().header.events_discarded, 1U);
    EXPECT_EQ(output_.packets.back().header.timestamp_end, kStartOfTime + (1ULL << 40));
}

// A reader waits for the first packet of a stream that was announced. If that packet carries a count, the reader cannot
// tell how many events it stands for.
TEST_F(ConsumerTest, RingThatBeginsUnreadableBeginsWithAPacketWithoutEvents) {
    write_unknown(kStartOfTime + 10);
    ASSERT_TRUE(consumer_.drain());
    ASSERT_EQ(output_.packets.size(), 1U);
    EXPECT_TRUE(output_.packets[0].records.empty());
    EXPECT_EQ(output_.packets[0].header.events_discarded, 0U);
    write(kStartOfTime + 20);
    ASSERT_TRUE(consumer_.drain());
    ASSERT_EQ(output_.packets.size(), 2U);
    EXPECT_EQ(output_.packets[1].header.events_discarded, 1U);
}

// The writer computes its short header from a record that no reader gets.
TEST_F(ConsumerTest, PacketBehindLostRecordsBeginsAtTheLastOfThem) {
    constexpr std::uint64_t kShortTime = ring::kCompactHeader.time_period();
    write(kStartOfTime + 10);
    ASSERT_TRUE(consumer_.drain());
    write_unknown(kStartOfTime + kShortTime + 10);
    ASSERT_TRUE(consumer_.drain());
    EXPECT_TRUE(consumer_.wants_drain()) << "there was something";
    write(kStartOfTime + kShortTime + 20);
    ASSERT_TRUE(consumer_.drain());
    ASSERT_EQ(output_.packets.size(), 2U);
    ASSERT_EQ(output_.packets[1].records.size(), kRecordSize);
    const std::uint64_t begin = output_.packets[1].header.timestamp_begin;
    const ctf::RecordHeaderBytes header = ctf::copy_header(ring::kCompactHeader, output_.packets[1].records);
    EXPECT_EQ(ctf::record_timestamp(ring::kCompactHeader, header, begin), kStartOfTime + kShortTime + 20);
}

// A record claims ten bytes, as many as two others have. Only the number of records shows that something is wrong.
TEST_F(ConsumerTest, FewerRecordsThanTheRingHadAreCounted) {
    write(kStartOfTime + 10);
    write(kStartOfTime + 20);
    make_one_of_two();
    ASSERT_TRUE(consumer_.drain());
    EXPECT_EQ(consumer_.totals().events, 1U);
    EXPECT_EQ(consumer_.unreadable(), 1U);
}

TEST_F(ConsumerTest, CountThatCannotBeIsNotBelieved) {
    write(kStartOfTime + 10);
    header().next_records += 1'000'000;
    ASSERT_TRUE(consumer_.drain());
    EXPECT_EQ(consumer_.unreadable(), 0U);
    header().next_records = 0;
    write(kStartOfTime + 20);
    ASSERT_TRUE(consumer_.drain());
    EXPECT_EQ(consumer_.unreadable(), 0U);
}

TEST_F(ConsumerTest, QuarantinedRingIsCountedAtTheEnd) {
    write(kStartOfTime + 10);
    ASSERT_TRUE(consumer_.drain());
    write(kStartOfTime + 20);
    write(kStartOfTime + 30);
    header().last_timestamp = 0;
    ASSERT_TRUE(consumer_.drain());
    ASSERT_EQ(consumer_.quarantined().size(), 1U);
    ASSERT_TRUE(consumer_.finish());
    EXPECT_EQ(consumer_.unreadable(), 2U);
    EXPECT_EQ(output_.packets.back().header.events_discarded, 2U);
}

TEST_F(ConsumerTest, RubbishWaitsForTheOutputToo) {
    write(kStartOfTime + 10);
    header().head += 3;
    output_.failures_left = 1;
    EXPECT_FALSE(consumer_.drain());
    EXPECT_EQ(header().tail, 0U);
    ASSERT_TRUE(consumer_.drain());
    EXPECT_EQ(output_.packets.size(), 1U);
    EXPECT_EQ(header().tail, kRecordSize + 3);
}

TEST_F(ConsumerTest, BellIsArmedBehindWhatWasRead) {
    ASSERT_TRUE(consumer_.drain());
    EXPECT_EQ(header().limit, 100U);
    write(kStartOfTime + 10);
    ASSERT_TRUE(consumer_.drain());
    EXPECT_EQ(header().limit, kRecordSize + 100);
}

// A writer restores the limit and rings before its record is committed. A consumer that comes at once finds nothing. It
// must arm the bell again, or nobody rings for the record.
TEST_F(ConsumerTest, BellIsArmedAgainWhenItRangTooEarly) {
    header().limit = ring::kMinRingSize;  // disarmed; the record comes later
    ASSERT_TRUE(consumer_.drain());
    EXPECT_EQ(header().limit, 100U);
}

// A writer may have looked at the limit just before the bell was armed: so it takes one more drain.
TEST_F(ConsumerTest, FirstRecordRingsIfNobodyDrainsSoon) {
    ring::RingHeader& ring = *rings_.map().rings[0];
    consumer_.wake_at_first_record(true);
    ASSERT_TRUE(consumer_.drain());
    EXPECT_EQ(ring.limit, 0U);
    EXPECT_TRUE(consumer_.wants_drain());
    ASSERT_TRUE(consumer_.drain());
    EXPECT_FALSE(consumer_.wants_drain());
    ring.limit = ring::kMinRingSize;  // the writer rings
    write_to_cpu_ring(kStartOfTime + 10);
    ASSERT_TRUE(consumer_.drain());
    EXPECT_EQ(ring.limit, kRecordSize + 100) << "the next one, soon after it, does not ring";
    ASSERT_TRUE(consumer_.drain());
    EXPECT_EQ(ring.limit, kRecordSize);
    consumer_.wake_at_first_record(false);
    ASSERT_TRUE(consumer_.drain());
    EXPECT_EQ(ring.limit, kRecordSize + 100);
}

// Programs say how many rings they use, and a process has so many mappings at most.
TEST_F(ConsumerTest, RingThatCannotBeMappedIsTriedAgainAndKeepsNobodyWaiting) {
    const auto own = ring::RingSet::adopt(UniqueFd(::dup(rings_.set().fd())), rings_.set().geometry(), kStartOfTime);
    ASSERT_TRUE(own);
    const std::array<Consumer::Source, 1> sources{
        {{.rings = &*own, .walker = &walker_, .stream_class_id = 0, .thread_stream_class_id = 1, .wake_after = 100}}};
    Consumer consumer(sources, output_, {.trace_uuid = {7}});
    write_to_cpu_ring(kStartOfTime + 10);
    write(kStartOfTime + 20);
    const UniqueFd readable(::open(fmt::format("/proc/self/fd/{}", own->fd()).c_str(), O_RDONLY | O_CLOEXEC));
    ASSERT_EQ(::dup2(readable.get(), own->fd()), own->fd());
    ASSERT_TRUE(consumer.drain());
    ASSERT_TRUE(consumer.unmapped());
    EXPECT_TRUE(consumer.unmapped()->message.starts_with("cannot map a ring")) << consumer.unmapped()->message;
    EXPECT_EQ(consumer.totals().events, 1U);
    EXPECT_EQ(own->mapped_in_use(), own->geometry().cpu_rings);
    ASSERT_TRUE(consumer.finish());
    EXPECT_EQ(consumer.totals().left_in_rings, 1U);
    ASSERT_EQ(::dup2(rings_.set().fd(), own->fd()), own->fd());
    ASSERT_TRUE(consumer.drain());
    EXPECT_FALSE(consumer.unmapped());
    EXPECT_EQ(consumer.totals().events, 2U);
    EXPECT_EQ(own->mapped_in_use(), own->geometry().ring_count());
}

// The rings of two channels. Those of the second have large headers, and a bell of their own.
class TwoChannelsTest : public ConsumerTest {
  protected:
    static constexpr ring::HeaderKind kLarge = ring::HeaderKind::kLarge;

    TwoChannelsTest() {
        ctf::EventClass event_class{.id = 1, .name = "test:byte"};
        event_class.fields = ctf::StructClass{{{"_byte", ctf::IntegerClass{.size = 8}}}};
        other_walker_.add(event_class);
    }

    void write_other(std::uint64_t now) {
        const std::string staged(1 + ring::kCopySlack, 'x');
        ASSERT_EQ(other_rings_.at(now).write_to(other_header(), {kLarge, 1}, staged.data(), 1),
                  ring::WriteOutcome::kWritten);
    }
    [[nodiscard]] ring::RingHeader& other_header() const { return other_rings_.own_ring(); }

    TestRings other_rings_;
    ctf::RecordWalker other_walker_{ring::header_layout(kLarge), 0};
    std::array<Consumer::Source, 2> both_{sources()[0],
                                          {.rings = &other_rings_.set(),
                                           .walker = &other_walker_,
                                           .stream_class_id = 2,
                                           .thread_stream_class_id = 3,
                                           .wake_after = 7}};
    Consumer consumer_of_both_{both_, output_, {.trace_uuid = {7}}};
};

TEST_F(TwoChannelsTest, PacketSaysWhichChannelItsRingIsOf) {
    write(kStartOfTime + 10);
    write_other(kStartOfTime + 20);
    ASSERT_TRUE(consumer_of_both_.drain());
    ASSERT_EQ(output_.packets.size(), 2U);
    const auto ring = static_cast<std::uint32_t>(instance(0));
    EXPECT_EQ(output_.packets[0].stream, (StreamId{0, ring}));
    EXPECT_EQ(output_.packets[0].header.stream_id, 1U);
    EXPECT_EQ(output_.packets[1].stream, (StreamId{1, ring}));
    EXPECT_EQ(output_.packets[1].header.stream_id, 3U);
    EXPECT_EQ(output_.packets[1].header.stream_instance_id, ring);
    EXPECT_EQ(output_.packets[1].header.packet_seq_num, 0U);
    EXPECT_EQ(output_.packets[1].records.size(), ring::header_layout(kLarge).short_size + 1);
}

TEST_F(TwoChannelsTest, EachIsCountedAlone) {
    write(kStartOfTime + 10);
    write(kStartOfTime + 20);
    write_other(kStartOfTime + 20);
    write_unknown(kStartOfTime + 30);
    ASSERT_TRUE(consumer_of_both_.drain());
    EXPECT_EQ(consumer_of_both_.events(0), 2U);
    EXPECT_EQ(consumer_of_both_.events(1), 1U);
    EXPECT_EQ(consumer_of_both_.unreadable(0), 1U);
    EXPECT_EQ(consumer_of_both_.unreadable(1), 0U);
    EXPECT_EQ(consumer_of_both_.totals().events, 3U);
    EXPECT_EQ(consumer_of_both_.unreadable(), 1U);
}

TEST_F(TwoChannelsTest, EachHasABellOfItsOwn) {
    ASSERT_TRUE(consumer_of_both_.drain());
    EXPECT_EQ(header().limit, 100U);
    EXPECT_EQ(other_header().limit, 7U);
}

TEST_F(TwoChannelsTest, StreamsOfThreadsAreThoseOfTheirChannel) {
    other_rings_.set().header().thread_rings_used = 0;
    ASSERT_TRUE(consumer_of_both_.drain());
    EXPECT_TRUE(consumer_of_both_.has_thread_streams(0));
    EXPECT_FALSE(consumer_of_both_.has_thread_streams(1));
    other_rings_.set().header().thread_rings_used = 1;
    write_other(kStartOfTime + 10);
    ASSERT_TRUE(consumer_of_both_.drain());
    EXPECT_TRUE(consumer_of_both_.has_thread_streams(1));
    ASSERT_EQ(output_.packets.size(), 1U);
    EXPECT_EQ(output_.packets[0].header.stream_id, 3U);
}

// Packets hold three of these records, but not four.
class PacketSizeTest : public ConsumerTest {
  protected:
    PacketSizeTest() : ConsumerTest(ctf::kPacketHeaderSize + 4 * kRecordSize - 1) {}

    void write_all(std::initializer_list<std::uint64_t> times) {
        for (const std::uint64_t time : times) write(kStartOfTime + time);
    }
    // The times of a packet's records, as a reader sees them.
    [[nodiscard]] std::vector<std::uint64_t> times(std::size_t packet) const {
        const KeepingOutput::Kept& kept = output_.packets.at(packet);
        std::vector<std::uint64_t> times;
        std::uint64_t time = kept.header.timestamp_begin;
        for (std::size_t at = 0; at < kept.records.size(); at += kRecordSize) {
            const UntrustedBytes record = UntrustedBytes(kept.records).subspan(at);
            time = ctf::record_timestamp(ring::kCompactHeader, ctf::copy_header(ring::kCompactHeader, record), time);
            times.push_back(time - kStartOfTime);
        }
        return times;
    }
};

using Times = std::vector<std::uint64_t>;

TEST_F(PacketSizeTest, RestGoesIntoTheNextPacketsOfTheSameDrain) {
    write_all({10, 20, 30, 30, 50, 60, 70});
    ASSERT_TRUE(consumer_.drain());
    ASSERT_EQ(output_.packets.size(), 3U);
    EXPECT_EQ(times(0), (Times{10, 20, 30}));
    EXPECT_EQ(times(1), (Times{30, 50, 60}));
    EXPECT_EQ(times(2), (Times{70}));
    for (std::size_t i = 0; i < 3; ++i) {
        const ctf::PacketHeader& header = output_.packets[i].header;
        EXPECT_EQ(header.packet_seq_num, i);
        EXPECT_EQ(header.timestamp_begin, i == 0 ? kStartOfTime : output_.packets[i - 1].header.timestamp_end);
        EXPECT_EQ(header.timestamp_end, kStartOfTime + times(i).back());
    }
    EXPECT_EQ(consumer_.totals().events, 7U);
}

TEST_F(PacketSizeTest, WhatIsDiscardedBelongsBehindAllOfThem) {
    write_all({10, 20, 30, 40});
    header().discarded[0] = 5;
    ASSERT_TRUE(consumer_.drain());
    write_all({50});
    ASSERT_TRUE(consumer_.drain());
    ASSERT_EQ(output_.packets.size(), 3U);
    EXPECT_EQ(output_.packets[1].header.events_discarded, 0U);
    EXPECT_EQ(output_.packets[2].header.events_discarded, 5U);
}

TEST_F(PacketSizeTest, WhatTheOutputRefusesComesAgainInParts) {
    write_all({10, 20, 30, 40});
    output_.failures_left = 1;
    EXPECT_FALSE(consumer_.drain());
    write_all({50});
    ASSERT_TRUE(consumer_.drain());
    ASSERT_EQ(output_.packets.size(), 2U);
    EXPECT_EQ(times(1), (Times{40, 50}));
    EXPECT_EQ(consumer_.totals().events, 5U);
}

TEST_F(PacketSizeTest, FewerRecordsThanTheRingHadAreCountedAcrossRefusals) {
    write_all({10, 20, 30, 40, 50, 60, 70, 80});
    for (const std::size_t pair : {0U, 1U, 2U}) make_one_of_two(pair * 2 * kRecordSize);
    output_.room = 3;
    EXPECT_FALSE(consumer_.drain());
    output_.room = 4;
    ASSERT_TRUE(consumer_.drain());
    EXPECT_EQ(consumer_.totals().events, 5U);
    EXPECT_EQ(consumer_.unreadable(), 3U);
}

TEST_F(PacketSizeTest, LargerRecordIsAPacketOfItsOwn) {
    const std::string staged(30 + ring::kCopySlack, 'x');
    ctf::EventClass event_class{.id = 2, .name = "test:large"};
    event_class.fields = ctf::StructClass{{{"_a", ctf::ArrayClass{ctf::FieldClass(ctf::IntegerClass{.size = 8}), 30}}}};
    walker_.add(event_class);
    write_all({10});
    ASSERT_EQ(rings_.write_to(header(), test::TestEvent{ring::HeaderKind::kCompact, 2}, staged.data(), 30),
              ring::WriteOutcome::kWritten);
    write_all({20});
    ASSERT_TRUE(consumer_.drain());
    ASSERT_EQ(output_.packets.size(), 3U);
    EXPECT_EQ(output_.packets[1].records.size(), 4 + 30U);
}

// A program overwrote an extended header. Its wrong time must not move packets back, or past the end of their ring's
// time.
TEST_F(PacketSizeTest, TimesThatLieStayInTheirPacket) {
    std::uint64_t lies = 0;
    for (const std::uint64_t lie : {std::uint64_t{0}, ~std::uint64_t{0}}) {
        const std::uint64_t begin = rings_.clock().lines[0].ns_base;
        const std::size_t packets = output_.packets.size();
        const auto* const ring = reinterpret_cast<std::byte*>(&header()) + ring::kPageSize;  // NOLINT
        for (std::uint64_t i = 1; i <= 4; ++i) write(begin + (i << 30));  // all have extended headers
        constexpr std::size_t kExtendedRecord = 1 + 4 + 8 + 1;
        const std::size_t third = header().head - 2 * kExtendedRecord;
        std::memcpy(const_cast<std::byte*>(ring) + third + 5, &lie, sizeof lie);  // NOLINT
        for (int i = 0; i < 3; ++i) ASSERT_TRUE(consumer_.drain());
        for (std::size_t i = packets; i < output_.packets.size(); ++i) {
            const ctf::PacketHeader& header = output_.packets[i].header;
            EXPECT_GE(header.timestamp_end, header.timestamp_begin);
            EXPECT_LE(header.timestamp_end, begin + (1ULL << 32));
        }
        lies += 2;  // the record, and the one after it
        EXPECT_EQ(consumer_.unreadable(), lies);
    }
    EXPECT_TRUE(consumer_.quarantined().empty());
}

TEST_F(PacketSizeTest, RubbishBehindAFullPacketIsFound) {
    write_all({10, 20, 30});
    header().head += 3;
    ASSERT_TRUE(consumer_.drain());
    EXPECT_EQ(output_.packets.size(), 1U);
    EXPECT_EQ(header().tail, 3 * kRecordSize + 3);
}

// Another process switches the header of the first record between its short and its extended form as fast as it can. So
// the record may be walked in one form and sent in the other.
TEST_F(ConsumerTest, HeaderThatChangesWhileItIsReadHarmsNobody) {
    auto* const at = reinterpret_cast<volatile char*>(&header()) + ring::kPageSize;  // NOLINT(*-reinterpret-cast)
    const pid_t flipping = ::fork();
    if (flipping == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) *at = static_cast<char>(*at ^ kTag ^ 1);
    }
    const test::Patience trying{std::chrono::milliseconds(300)};
    for (std::uint64_t now = kStartOfTime; !trying.is_over(); now += 10) {
        header().head = header().next_head = header().next_head / ring::kMinRingSize * ring::kMinRingSize;
        Consumer consumer(sources(), output_, {.trace_uuid = {7}});
        write(now);
        (void)consumer.drain();
        output_.packets.clear();
    }
    ::kill(flipping, SIGKILL);
    ::waitpid(flipping, nullptr, 0);
}

// There may be hundreds of rings of threads, and a program that is to come uses those of CPUs.
TEST(ConsumerRings, BeginningsOfCpuRingsAloneAreThereBeforeTheirWriters) {
    LEAT_NEEDS(!is_memory_limited(), "unlimited-memory");
    constexpr std::uint64_t kRingSize = 1U << 20;
    constexpr std::uint64_t kTouched = 256U << 10;
    const TestRings rings(kRingSize, 2);
    const auto allocated = [&rings] {
        struct stat status {};
        EXPECT_EQ(::fstat(rings.set().fd(), &status), 0);
        return static_cast<std::uint64_t>(status.st_blocks) * 512;
    };
    const std::uint64_t before = allocated();
    const ctf::RecordWalker walker = walker_of_one_byte_events();
    const std::array<Consumer::Source, 1> sources = {
        {{.rings = &rings.set(), .walker = &walker, .stream_class_id = 0, .thread_stream_class_id = 1}}};
    KeepingOutput output;
    Consumer consumer(sources, output, {.touched_at_first = kTouched});
    const std::uint64_t of_cpus = allocated();
    EXPECT_EQ(of_cpus, before + 2 * kTouched);
    ASSERT_TRUE(consumer.drain());
    EXPECT_EQ(allocated(), of_cpus + 4 * Consumer::kTouchedAtFirst);
}

}  // namespace
}  // namespace leat::consumer
