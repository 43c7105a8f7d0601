#include <gtest/gtest.h>
#include <x86intrin.h>

#include <array>
#include <cstring>
#include <numeric>
#include <random>

#include "ring/clock.hpp"
#include "support/hex.hpp"
#include "support/skip.hpp"
#include "support/test_rings.hpp"

namespace leat::ring {
namespace {

using test::kStartOfTime;
using test::OnOneCpu;
using test::TestEvent;
using test::TestRings;
using test::Writer;

using test::hex;

std::string text(UntrustedBytes bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};  // NOLINT(*-reinterpret-cast)
}

class RingWriters : public testing::TestWithParam<Writer> {
  protected:
    void SetUp() override { LEAT_NEEDS(GetParam() == Writer::kOfThread || test::has_rseq(), "rseq"); }

    WriteOutcome write(TestEvent event, std::string_view payload, std::string_view contexts = {}) {
        return rings_.write(GetParam(), event, payload, contexts);
    }
    WriteOutcome write(std::string_view payload) { return write(TestEvent{HeaderKind::kCompact, 1}, payload); }

    [[nodiscard]] std::uint32_t ring() const {
        return GetParam() == Writer::kOfCpu ? on_one_cpu_.cpu() : rings_.own_ring_index();
    }
    [[nodiscard]] RingHeader& header() const { return *rings_.map().rings[ring()]; }

    // What the consumer would see. The records stay in the ring.
    [[nodiscard]] Published published() { return *reader_.published(); }
    // The same, but the records are consumed.
    std::string drain() {
        const Published now = published();
        std::string bytes = hex(now.records);
        reader_.release(now.head, kMinRingSize);
        return bytes;
    }

    OnOneCpu on_one_cpu_;
    TestRings rings_;
    RingReader reader_ = rings_.set().reader(ring());
};

INSTANTIATE_TEST_SUITE_P(Both, RingWriters, testing::Values(Writer::kOfCpu, Writer::kOfThread), test::name_of);

TEST_P(RingWriters, RecordIsHeaderAndPayload) {
    rings_.at(kStartOfTime + 5);
    ASSERT_EQ(write(TestEvent{HeaderKind::kCompact, 3}, "abc"), WriteOutcome::kWritten);
    const Published now = published();
    EXPECT_EQ(now.last_timestamp, kStartOfTime + 5);
    // (1'000'005 << 5) + 3, little-endian
    EXPECT_EQ(hex(now.records), "a348e801616263");
}

TEST_P(RingWriters, LargeHeaderHasSixBytes) {
    ASSERT_EQ(write(TestEvent{HeaderKind::kLarge, 0x1234}, "z"), WriteOutcome::kWritten);
    EXPECT_EQ(drain(),
              "3412"
              "40420f00"
              "7a");
}

// Its time counts in cycles of 256 ns: the id lies where the lowest byte of the ns would.
TEST_P(RingWriters, TinyHeaderHasThreeBytes) {
    rings_.at(kStartOfTime + 5);
    ASSERT_EQ(write(TestEvent{HeaderKind::kTiny, 0x12}, "z"), WriteOutcome::kWritten);
    EXPECT_EQ(published().last_timestamp, kStartOfTime + 5) << "the ring counts in ns";
    EXPECT_EQ(drain(),
              "12"
              "420f"
              "7a");
}

TEST_P(RingWriters, EmptyPayloadIsHeaderAlone) {
    ASSERT_EQ(write(TestEvent{HeaderKind::kCompact, 0}, ""), WriteOutcome::kWritten);
    EXPECT_EQ(drain(), "0048e801");
}

TEST_P(RingWriters, PayloadOfAnySizeIsCopiedWhole) {
    for (std::size_t size = 0; size < 200; ++size) {
        std::string payload(size, '\0');
        std::iota(payload.begin(), payload.end(), '\1');
        ASSERT_EQ(write(payload), WriteOutcome::kWritten);
        const Published now = published();
        ASSERT_EQ(text(now.records.subspan(4)), payload);
        reader_.release(now.head, kMinRingSize);
    }
}

// The payload follows the contexts, whatever the number of blocks that either is copied in.
TEST_P(RingWriters, ContextsOfAnySizeAreCopiedWhole) {
    std::string contexts(100, '\0');
    std::iota(contexts.begin(), contexts.end(), '\1');
    for (std::size_t size = 0; size <= contexts.size(); ++size) {
        for (const HeaderKind kind : {HeaderKind::kCompact, HeaderKind::kLarge, HeaderKind::kTiny}) {
            ASSERT_EQ(write({kind, 1}, "payload of some length", contexts.substr(0, size)), WriteOutcome::kWritten);
            const Published now = published();
            ASSERT_EQ(text(now.records.subspan(header_layout(kind).short_size)),
                      contexts.substr(0, size) + "payload of some length");
            reader_.release(now.head, kMinRingSize);
        }
    }
}

TEST_P(RingWriters, LargestIdOfShortForm) {
    EXPECT_EQ(write(TestEvent{HeaderKind::kCompact, 30}, ""), WriteOutcome::kWritten);
    EXPECT_EQ(drain(), "1e48e801");
    EXPECT_EQ(write(TestEvent{HeaderKind::kLarge, 65534}, ""), WriteOutcome::kWritten);
    EXPECT_EQ(drain(), "feff40420f00");
    EXPECT_EQ(write(TestEvent{HeaderKind::kTiny, 254}, ""), WriteOutcome::kWritten);
    EXPECT_EQ(drain(), "fe420f");
}

TEST_P(RingWriters, LargerIdTakesExtendedForm) {
    EXPECT_EQ(write(TestEvent{HeaderKind::kCompact, 31}, "x"), WriteOutcome::kWritten);
    EXPECT_EQ(drain(),
              "1f"
              "1f000000"
              "40420f0000000000"
              "78");
    EXPECT_EQ(write(TestEvent{HeaderKind::kLarge, 65535}, "x"), WriteOutcome::kWritten);
    EXPECT_EQ(drain(),
              "ffff"
              "ffff0000"
              "40420f0000000000"
              "78");
    EXPECT_EQ(write(TestEvent{HeaderKind::kTiny, 255}, "x"), WriteOutcome::kWritten);
    EXPECT_EQ(drain(),
              "ff"
              "ff000000"
              "420f0000000000"
              "78");
    EXPECT_EQ(write(TestEvent{HeaderKind::kTiny, 0x12345678}, ""), WriteOutcome::kWritten);
    EXPECT_EQ(drain(),
              "ff"
              "78563412"
              "420f0000000000");
}

TEST_P(RingWriters, GapBelowLimitTakesShortForm) {
    rings_.at(kStartOfTime + (1U << 27) - 1);
    EXPECT_EQ(write(TestEvent{HeaderKind::kCompact, 0}, ""), WriteOutcome::kWritten);
    EXPECT_EQ(published().records.size(), 4U);
    rings_.at(kStartOfTime + (1U << 27) - 1 + (1ULL << 32) - 1);
    EXPECT_EQ(write(TestEvent{HeaderKind::kLarge, 0}, ""), WriteOutcome::kWritten);
    EXPECT_EQ(published().records.size(), 4U + 6U);
}

TEST_P(RingWriters, GapAtLimitTakesExtendedForm) {
    rings_.at(kStartOfTime + (1U << 27));
    EXPECT_EQ(write(TestEvent{HeaderKind::kCompact, 0}, ""), WriteOutcome::kWritten);
    EXPECT_EQ(published().records.size(), 13U);
    rings_.at(kStartOfTime + (1U << 27) + (1ULL << 32));
    EXPECT_EQ(write(TestEvent{HeaderKind::kLarge, 0}, ""), WriteOutcome::kWritten);
    EXPECT_EQ(published().records.size(), 13U + 14U);
}

// 16 bits of cycles say 65,535 at most. Two records may be nearly a cycle more apart than their cycles are.
TEST_P(RingWriters, TinyHeadersTellLongGaps) {
    constexpr std::uint64_t kPeriod = 65'536ULL * 256;
    for (const std::uint64_t within_cycle : {0U, 1U, 255U}) {
        for (const std::uint64_t gap :
             {kPeriod - 257, kPeriod - 256, kPeriod - 255, kPeriod - 1, kPeriod, kPeriod + 1}) {
            const std::uint64_t first = (header().last_timestamp / 256 + 1) * 256 + within_cycle;
            rings_.at(first);
            ASSERT_EQ(write(TestEvent{HeaderKind::kTiny, 0}, ""), WriteOutcome::kWritten);
            drain();
            rings_.at(first + gap);
            ASSERT_EQ(write(TestEvent{HeaderKind::kTiny, 0}, ""), WriteOutcome::kWritten);
            EXPECT_EQ(published().records.size(), gap <= kPeriod - 256 ? 3U : 12U) << within_cycle << ", " << gap;
            drain();
        }
    }
}

// Whatever times and ids: who reads the records one after the other sees each time, in whole cycles.
TEST_P(RingWriters, TimesOfAllHeaderKindsAreReadAsTheyWereWritten) {
    std::mt19937_64 random(7);  // NOLINT(cert-msc51-cpp): the same each time
    for (const HeaderKind kind : {HeaderKind::kCompact, HeaderKind::kLarge, HeaderKind::kTiny}) {
        const RecordHeaderLayout& layout = header_layout(kind);
        std::uint64_t now = header().last_timestamp;
        std::uint64_t read = now;
        for (int i = 0; i < 20'000; ++i) {
            const std::uint64_t limit = layout.gap_limit();
            const std::array<std::uint64_t, 6> gaps{0,     random() % 1'000,        random() % (2 * limit), limit - 1,
                                                    limit, random() % (limit << 18)};
            now += gaps[random() % gaps.size()];
            rings_.at(now);
            const auto id = static_cast<std::uint32_t>(random() % (layout.all_ones() + 3));
            ASSERT_EQ(write(TestEvent{kind, id}, "p"), WriteOutcome::kWritten);
            const Published seen = published();
            std::uint64_t bytes = 0;
            std::memcpy(&bytes, seen.records.data(), layout.short_size);
            std::uint64_t read_id = bytes & layout.all_ones();
            std::size_t size = layout.short_size;
            const std::uint64_t before = read;
            read = layout.short_timestamp(bytes, read);
            if (read_id == layout.all_ones()) {
                std::uint32_t extended_id = 0;
                std::uint64_t cycles = 0;
                std::memcpy(&extended_id, seen.records.data() + layout.tag_size, sizeof extended_id);
                std::memcpy(&cycles, seen.records.data() + layout.extended_time_offset(), layout.extended_time_size());
                read_id = extended_id;
                read = layout.time_of(cycles);
                size = layout.extended_size();
            }
            ASSERT_EQ(read, layout.whole_cycles(now)) << "after " << before << ", event " << i;
            ASSERT_EQ(read_id, id);
            ASSERT_EQ(text(seen.records.subspan(size)), "p");
            reader_.release(seen.head, kMinRingSize);
        }
    }
}

TEST_P(RingWriters, TimeNeverGoesBack) {
    rings_.at(kStartOfTime + 100);
    ASSERT_EQ(write(""), WriteOutcome::kWritten);
    rings_.at(kStartOfTime + 50);
    ASSERT_EQ(write(""), WriteOutcome::kWritten);
    const Published now = published();
    EXPECT_EQ(now.last_timestamp, kStartOfTime + 100);
    EXPECT_EQ(hex(now.records.first(4)), hex(now.records.last(4)));
}

TEST_P(RingWriters, RecordsRunOverTheEndOfTheRing) {
    const std::string payload(1000, 'p');
    std::uint64_t written = 0;
    for (int lap = 0; lap < 3 * 66; ++lap) {
        ASSERT_EQ(write(payload), WriteOutcome::kWritten);
        written += 4 + payload.size();
        const Published now = published();
        ASSERT_EQ(now.head, written);
        ASSERT_EQ(text(now.records.subspan(4)), payload);
        reader_.release(now.head, kMinRingSize);
    }
    EXPECT_GT(written, 3 * kMinRingSize);
}

TEST_P(RingWriters, FullRingTakesNothingMoreAndLosesNothing) {
    const std::string payload(996, 'p');
    std::uint64_t records = 0;
    while (write(payload) == WriteOutcome::kWritten) ++records;
    EXPECT_EQ(records, (kMinRingSize - kCopySlack) / 1000);
    EXPECT_EQ(published().records.size(), records * 1000);
    EXPECT_EQ(write(payload), WriteOutcome::kNoRoom);
    reader_.release(published().head, kMinRingSize);
    EXPECT_EQ(write(payload), WriteOutcome::kWritten);
}

// The bytes before the oldest unread record do not change: the slack of the copy must not reach them.
TEST_P(RingWriters, SlackOfTheLastRecordTouchesNothingUnread) {
    ASSERT_EQ(write("first"), WriteOutcome::kWritten);
    const std::string first = hex(published().records);
    for (std::size_t size = 400; size > 0; --size) {
        while (write(std::string(size, 'x')) == WriteOutcome::kWritten) continue;
    }
    EXPECT_EQ(hex(published().records.first(first.size() / 2)), first);
    EXPECT_LE(published().head, kMinRingSize);
}

TEST_P(RingWriters, LimitBelowHeadStopsTheNextRecord) {
    ASSERT_EQ(write("a"), WriteOutcome::kWritten);
    reader_.release(published().head, 0);
    EXPECT_EQ(write("b"), WriteOutcome::kNoRoom);
    // The tracer does this: it restores the true limit and writes once more.
    header().limit = header().tail + kMinRingSize;
    EXPECT_EQ(write("b"), WriteOutcome::kWritten);
}

TEST_P(RingWriters, LimitAheadLetsRecordsPassUpToIt) {
    reader_.release(0, 5 + kCopySlack);
    EXPECT_EQ(write("a"), WriteOutcome::kWritten);
    EXPECT_EQ(write("a"), WriteOutcome::kNoRoom);
}

TEST_P(RingWriters, ExtendedFormHonoursLimitToo) {
    reader_.release(0, 13 + kCopySlack);
    EXPECT_EQ(write(TestEvent{HeaderKind::kCompact, 31}, "a"), WriteOutcome::kNoRoom);
    EXPECT_EQ(write(TestEvent{HeaderKind::kCompact, 31}, ""), WriteOutcome::kWritten);
}

TEST_P(RingWriters, TinyFormsHonourLimitToo) {
    reader_.release(0, 12 + kCopySlack);
    EXPECT_EQ(write(TestEvent{HeaderKind::kTiny, 255}, "a"), WriteOutcome::kNoRoom);
    EXPECT_EQ(write(TestEvent{HeaderKind::kTiny, 255}, ""), WriteOutcome::kWritten);
    reader_.release(12, 3 + kCopySlack);
    EXPECT_EQ(write(TestEvent{HeaderKind::kTiny, 1}, "a"), WriteOutcome::kNoRoom);
    EXPECT_EQ(write(TestEvent{HeaderKind::kTiny, 1}, ""), WriteOutcome::kWritten);
}

TEST_P(RingWriters, RecordsAreCounted) {
    for (std::uint64_t count = 1; count <= 5; ++count) {
        ASSERT_EQ(write("abc"), WriteOutcome::kWritten);
        EXPECT_EQ(published().record_count, count);
    }
}

// A writer was killed or restarted after it announced its record and before the commit.
TEST_P(RingWriters, AnnouncedRecordThatWasNotCommittedIsNotCounted) {
    ASSERT_EQ(write("abc"), WriteOutcome::kWritten);
    for (int i = 0; i < 3; ++i) {
        header().next_head = header().head + 100;
        ++header().next_records;
        EXPECT_EQ(published().record_count, 1U + static_cast<unsigned>(i));
        ASSERT_EQ(write("abc"), WriteOutcome::kWritten);
        EXPECT_EQ(published().record_count, 2U + static_cast<unsigned>(i));
    }
}

TEST_P(RingWriters, PositionsBeyondFourGigabytes) {
    // The positions are those of a ring that has run for a long time.
    const std::uint64_t far = (1ULL << 40) - 3;
    header().head = far;
    reader_.release(far, kMinRingSize);
    ASSERT_EQ(write("abc"), WriteOutcome::kWritten);
    EXPECT_EQ(text(published().records.subspan(4)), "abc");
    EXPECT_EQ(published().head, far + 7);
}

class CpuRingWriter : public testing::Test {
  protected:
    void SetUp() override { LEAT_NEEDS(test::has_rseq(), "rseq"); }
    OnOneCpu on_one_cpu_;
    TestEvent event_{HeaderKind::kCompact, 1};
};

TEST_F(CpuRingWriter, SwitchedOffWritesNothing) {
    TestRings rings;
    // Off, and on again for others: neither is what the caller saw.
    for (const std::uint32_t word : {0U, 2U, 0x101U}) {
        rings.set_word(word);
        EXPECT_EQ(rings.write(Writer::kOfCpu, event_, "a"), WriteOutcome::kChanged);
        EXPECT_EQ(rings.map().rings[on_one_cpu_.cpu()]->head, 0U);
    }
}

// A signal handler has made the writer another channel's since the caller chose it.
TEST_F(CpuRingWriter, OfAnotherChannelWritesNothing) {
    TestRings rings;
    test::TestWriter with(rings.map(), HeaderKind::kCompact);
    with.get()->channel = 5;
    const std::uint32_t word = 1;
    const char record[kCopySlack]{};
    EXPECT_EQ(leat_rseq_write(with.get(), event_key(6, 1), &word, record, 0, 1), WriteOutcome::kChanged);
    EXPECT_EQ(rings.map().rings[on_one_cpu_.cpu()]->head, 0U);
    EXPECT_EQ(leat_rseq_write(with.get(), event_key(5, 1), &word, record, 0, 1), WriteOutcome::kWritten);
}

TEST_F(CpuRingWriter, CpuBeyondTheSetHasNoRing) {
    TestRings rings(kMinRingSize, on_one_cpu_.cpu());
    EXPECT_EQ(rings.write(Writer::kOfCpu, event_, "a"), WriteOutcome::kNoRing);
}

TEST_F(CpuRingWriter, WithoutTscTakesTheTimeItIsGiven) {
    TestRings rings;
    ClockPage page{};
    page.source = ClockSource::kSystem;
    RingMap map = rings.map();
    map.clock = &page;
    const std::uint32_t word = 1;
    const char record[kCopySlack]{};
    test::TestWriter with(map, HeaderKind::kCompact);
    EXPECT_EQ(leat_rseq_write(with.get(), 1, &word, record, 0, 1), WriteOutcome::kNoTime);
    with.get()->system_time = kStartOfTime + 77;
    ASSERT_EQ(leat_rseq_write(with.get(), 1, &word, record, 0, 1), WriteOutcome::kWritten);
    EXPECT_EQ(map.rings[on_one_cpu_.cpu()]->last_timestamp, kStartOfTime + 77);
}

// As clock_now() does, whatever line the page has, when a writer sees it first and when it knows it.
TEST_F(CpuRingWriter, TimeIsThatOfTheClockPage) {
    TestRings rings;
    ClockPage page{};
    RingMap map = rings.map();
    map.clock = &page;
    test::TestWriter with(map, HeaderKind::kCompact);
    const std::uint32_t word = 1;
    const char record[kCopySlack]{};
    std::uint64_t hours = 1;
    for (const std::uint64_t multiplier :
         {0x6276'2762ULL, 1ULL, 1ULL << 31U, 0xffff'ffffULL, 1ULL << 32U, 5ULL << 32U}) {
        for (const std::uint64_t age : {0ULL, 1'000'000ULL, 1ULL << 40U}) {
            const std::uint64_t ns_base = 3'600'000'000'000 * hours++;
            page.lines[(page.generation + 1) & 1] = {
                .tsc_base = __rdtsc() - age, .ns_base = ns_base, .multiplier = multiplier, .unused = 0};
            ++page.generation;
            for (int i = 0; i < 2; ++i) {
                map.rings[on_one_cpu_.cpu()]->last_timestamp = 0;
                const std::uint64_t before = clock_now(page);
                ASSERT_EQ(leat_rseq_write(with.get(), 1, &word, record, 0, 1), WriteOutcome::kWritten);
                const std::uint64_t now = map.rings[on_one_cpu_.cpu()]->last_timestamp;
                EXPECT_LE(before, now) << multiplier << " " << age;
                EXPECT_GE(clock_now(page), now) << multiplier << " " << age;
            }
        }
    }
}

// The host was asleep, or the program moved to one that was started later: until the next line, it is that line's
// begin.
TEST_F(CpuRingWriter, TscThatBeganAnewIsTheLinesBegin) {
    TestRings rings;
    ClockPage page{};
    RingMap map = rings.map();
    map.clock = &page;
    const std::uint32_t word = 1;
    const char record[kCopySlack]{};
    RingHeader& header = *map.rings[on_one_cpu_.cpu()];
    constexpr std::uint64_t kHour = 3'600'000'000'000;
    for (const HeaderKind kind : {HeaderKind::kCompact, HeaderKind::kTiny, HeaderKind::kLarge}) {
        test::TestWriter with(map, kind);
        for (const std::uint64_t ns_base : {std::uint64_t{0}, std::uint64_t{1000}, kHour, 1000 * kHour}) {
            for (const std::uint64_t last : {std::uint64_t{0}, kHour - 5, kHour, 2 * kHour, 999 * kHour}) {
                page.lines[0] = {
                    .tsc_base = __rdtsc() + (1ULL << 45U), .ns_base = ns_base, .multiplier = 1ULL << 31U, .unused = 0};
                page.generation += 2;
                header.last_timestamp = last;
                ASSERT_EQ(leat_rseq_write(with.get(), 1, &word, record, 0, 1), WriteOutcome::kWritten);
                EXPECT_EQ(header.last_timestamp, std::max(last, ns_base));
                EXPECT_EQ(clock_now(page), ns_base);
            }
        }
    }
}

TEST_F(CpuRingWriter, EachCpuHasItsOwnRing) {
    cpu_set_t allowed;
    ASSERT_EQ(::sched_getaffinity(0, sizeof allowed, &allowed), 0);
    TestRings rings;
    const std::uint32_t cpus = possible_cpus();
    for (std::uint32_t cpu = 0; cpu < cpus; ++cpu) {
        OnOneCpu::move_to(cpu);
        ASSERT_EQ(rings.write(Writer::kOfCpu, event_, std::string(cpu, 'x')), WriteOutcome::kWritten);
    }
    for (std::uint32_t cpu = 0; cpu < cpus; ++cpu) EXPECT_EQ(rings.map().rings[cpu]->head, 4 + cpu);
}

}  // namespace
}  // namespace leat::ring
