#include "ring/ring_reader.hpp"

#include <gtest/gtest.h>

#include "support/test_rings.hpp"

namespace leat::ring {
namespace {

using test::kStartOfTime;
using test::TestRings;
using test::Writer;

// A ring whose header a test can fill with anything.
class RingReaderTest : public testing::Test {
  protected:
    void write(std::string_view payload) {
        ASSERT_EQ(rings_.write(Writer::kOfThread, test::TestEvent{HeaderKind::kCompact, 1}, payload),
                  WriteOutcome::kWritten);
    }
    void expect_refused(const std::string& words) {
        const auto published = reader_.published();
        ASSERT_FALSE(published);
        EXPECT_EQ(published.error().kind, ErrorKind::kCorrupt);
        EXPECT_NE(published.error().message.find(words), std::string::npos) << published.error().message;
    }

    TestRings rings_;
    RingHeader& header_ = rings_.own_ring();
    RingReader reader_ = rings_.set().reader(rings_.own_ring_index());
};

using RingReaderOnHonestRing = RingReaderTest;

TEST_F(RingReaderOnHonestRing, NothingNewIsEmptyAndTellsTheTime) {
    const auto published = reader_.published();
    ASSERT_TRUE(published);
    EXPECT_TRUE(published->records.empty());
    EXPECT_EQ(published->last_timestamp, kStartOfTime);
}

TEST_F(RingReaderOnHonestRing, RecordsStayUntilReleased) {
    write("abc");
    EXPECT_EQ(reader_.published()->records.size(), 7U);
    EXPECT_EQ(reader_.published()->records.size(), 7U);
    reader_.release(7, kMinRingSize);
    EXPECT_TRUE(reader_.published()->records.empty());
    write("d");
    EXPECT_EQ(reader_.published()->records.size(), 5U);
}

TEST_F(RingReaderOnHonestRing, AnotherReaderGoesOnWhereOneHasReleased) {
    write("abc");
    write("de");
    (void)reader_.published();
    reader_.release(7, kMinRingSize);
    RingReader next = rings_.set().reader(rings_.own_ring_index());
    next.go_on_at(7);
    EXPECT_EQ(next.released(), 7U);
    EXPECT_EQ(next.taken(), 7U);
    const auto published = next.published();
    ASSERT_TRUE(published);
    EXPECT_EQ(published->head, 13U);
    EXPECT_EQ(published->record_count, 2U);
    EXPECT_EQ(published->records.size(), 6U);
    EXPECT_EQ(published->records[4], std::byte{'d'});
}

TEST_F(RingReaderOnHonestRing, AnotherReaderGoesOnAtAnEmptyRing) {
    write("abc");
    RingReader next = rings_.set().reader(rings_.own_ring_index());
    next.go_on_at(7);
    const auto published = next.published();
    ASSERT_TRUE(published);
    EXPECT_TRUE(published->records.empty());
}

// The one before was killed when it was about to release.
TEST_F(RingReaderOnHonestRing, AnotherReaderGivesBackTheRoomThatOneKept) {
    write("abc");
    RingReader next = rings_.set().reader(rings_.own_ring_index());
    next.go_on_at(7);
    next.release(7, kMinRingSize - 7);  // the limit is there already
    EXPECT_EQ(header_.tail, 7U);
    EXPECT_EQ(header_.limit, kMinRingSize);
}

TEST_F(RingReaderTest, PositionBeyondHeadIsRefused) {
    write("abc");
    reader_.go_on_at(8);
    expect_refused("ring claims records up to byte 7, 8 were read");
}

TEST_F(RingReaderOnHonestRing, ReleaseMakesRoomAndArmsTheBell) {
    write("abc");
    reader_.release(7, 100);
    EXPECT_EQ(header_.tail, 7U);
    EXPECT_EQ(header_.limit, 107U);
    reader_.release(7, ~0ULL);
    EXPECT_EQ(header_.limit, 7 + kMinRingSize);
}

TEST_F(RingReaderOnHonestRing, DiscardedIsCountedByReason) {
    header_.discarded[static_cast<int>(DiscardReason::kTooLarge)] = 3;
    header_.discarded[7] = 4;  // a reason from a later version
    EXPECT_EQ(reader_.discarded(DiscardReason::kTooLarge), 3U);
    EXPECT_EQ(reader_.discarded(DiscardReason::kRingFull), 0U);
    EXPECT_EQ(reader_.discarded(), 7U);
}

using RingReaderOnLyingRing = RingReaderTest;

TEST_F(RingReaderOnLyingRing, MoreThanTheRingHoldsIsRefused) {
    header_.head = kMinRingSize;
    EXPECT_TRUE(reader_.published());
    header_.head = kMinRingSize + 1;
    expect_refused("ring claims records up to byte 65537, 0 were read and it holds 65536");
}

TEST_F(RingReaderOnLyingRing, HeadBeforeWhatWasReadIsRefused) {
    write("abc");
    reader_.release(7, kMinRingSize);
    header_.head = 6;
    expect_refused("up to byte 6, 7 were read");
}

TEST_F(RingReaderOnLyingRing, LargestHeadDoesNotWrap) {
    header_.head = ~0ULL;
    expect_refused("ring claims");
}

TEST_F(RingReaderOnLyingRing, TimeGoingBackIsRefused) {
    ASSERT_TRUE(reader_.published());
    header_.last_timestamp = kStartOfTime - 1;
    expect_refused("time goes back from 1000000 to 999999 ns");
}

TEST_F(RingReaderOnLyingRing, TimeThatNoClockReachesIsRefused) {
    header_.last_timestamp = (3ULL << 61) + 1;
    expect_refused("ring's time, 6917529027641081857 ns, cannot be");
}

TEST_F(RingReaderOnLyingRing, ConsumersHalfOfTheHeaderIsNotBelieved) {
    write("abc");
    header_.tail = 1'000'000;
    header_.limit = 0;
    ASSERT_TRUE(reader_.published());
    EXPECT_EQ(reader_.published()->records.size(), 7U);
}

}  // namespace
}  // namespace leat::ring
