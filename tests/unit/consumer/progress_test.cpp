#include "consumer/progress.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace leat::consumer {
namespace {

constexpr std::array<std::uint32_t, 2> kRings{3, 2};

Result<Progress> adopt(const Progress& progress, std::span<const std::uint32_t> rings = kRings) {
    return Progress::adopt(UniqueFd(::dup(progress.fd())), rings);
}

// Each member has a value of its own.
StreamProgress numbered(std::uint64_t first) {
    StreamProgress progress;
    for (std::uint64_t* const member :
         {&progress.position, &progress.sequence_number, &progress.timestamp, &progress.last_record,
          &progress.record_count, &progress.counted_up_to, &progress.unreadable, &progress.discarded,
          &progress.discarded_told, &progress.events, &progress.is_quarantined})
        *member = first++;
    return progress;
}

TEST(Progress, IsEmptyAtFirst) {
    const auto progress = Progress::create(kRings);
    ASSERT_TRUE(progress);
    EXPECT_FALSE(progress->find({0, 0}));
    EXPECT_FALSE(progress->find({1, 1}));
    EXPECT_TRUE(progress->begun().empty());
}

TEST(Progress, LatestCounts) {
    auto progress = *Progress::create(kRings);
    for (std::uint64_t i = 1; i < 6; ++i) {
        progress.save({0, 1}, numbered(100 * i));
        EXPECT_EQ(progress.find({0, 1}), numbered(100 * i));
    }
}

TEST(Progress, StreamsAreTheirOwn) {
    auto progress = *Progress::create(kRings);
    std::map<StreamId, StreamProgress> all;
    for (std::uint32_t channel = 0; channel < kRings.size(); ++channel)
        for (std::uint32_t ring = 0; ring < kRings.at(channel); ++ring)
            all[{channel, ring}] = numbered(1'000 * channel + 100 * ring + 1);
    for (const auto& [stream, saved] : all) progress.save(stream, saved);
    EXPECT_EQ(progress.begun(), all);
}

TEST(Progress, StreamWithoutPacketsHasNotBegun) {
    auto progress = *Progress::create(kRings);
    progress.save({1, 0}, {.timestamp = 7});
    EXPECT_EQ(progress.find({1, 0}), StreamProgress{.timestamp = 7});
    EXPECT_TRUE(progress.begun().empty());
}

TEST(Progress, AdoptedOneGoesOn) {
    auto before = *Progress::create(kRings);
    before.save({0, 2}, numbered(5));
    auto progress = adopt(before);
    ASSERT_TRUE(progress);
    EXPECT_EQ(progress->find({0, 2}), numbered(5));
    progress->save({0, 2}, numbered(6));
    EXPECT_EQ(adopt(*progress)->find({0, 2}), numbered(6));
}

// Killed in the middle of save(): the slot that does not count is half written.
TEST(Progress, HalfWrittenSlotDoesNotCount) {
    auto progress = *Progress::create(kRings);
    progress.save({0, 0}, numbered(1));
    const std::uint64_t scribble = 0x5555;
    const auto second_slot = static_cast<off_t>(2 * sizeof(std::uint64_t) + sizeof(StreamProgress));
    ASSERT_EQ(::pwrite(progress.fd(), &scribble, sizeof scribble, second_slot), 8);
    EXPECT_EQ(adopt(progress)->find({0, 0}), numbered(1));
    progress.save({0, 0}, numbered(2));
    EXPECT_EQ(adopt(progress)->find({0, 0}), numbered(2));
}

TEST(Progress, SlotThatDoesNotExistIsNone) {
    auto progress = *Progress::create(kRings);
    progress.save({0, 0}, numbered(1));
    const std::uint64_t third = 3;
    ASSERT_EQ(::pwrite(progress.fd(), &third, sizeof third, 0), 8);
    EXPECT_FALSE(adopt(progress)->find({0, 0}));
}

TEST(Progress, OfOtherRingsIsRefused) {
    const auto progress = Progress::create(kRings);
    constexpr std::array<std::uint32_t, 2> kMore{3, 3};
    constexpr std::array<std::uint32_t, 1> kFewer{4};
    for (const std::span<const std::uint32_t> rings : {std::span<const std::uint32_t>(kMore), {kFewer}}) {
        const auto adopted = adopt(*progress, rings);
        ASSERT_FALSE(adopted);
        EXPECT_EQ(adopted.error().kind, ErrorKind::kCorrupt);
    }
}

PlannedPacket plan(std::uint64_t number) {
    PlannedPacket packet{.before = numbered(100 * number), .size = 1'000 + number, .last_timestamp = number};
    packet.before.sequence_number = number;
    return packet;
}

std::vector<std::uint64_t> numbers_of(const std::vector<PlannedPacket>& packets) {
    std::vector<std::uint64_t> numbers;
    for (const PlannedPacket& packet : packets) {
        EXPECT_EQ(packet, plan(packet.before.sequence_number));
        numbers.push_back(packet.before.sequence_number);
    }
    return numbers;
}

using Numbers = std::vector<std::uint64_t>;

TEST(Progress, PacketsUnderWayAreBehindWhatIsSaved) {
    auto progress = *Progress::create(kRings);
    EXPECT_EQ(numbers_of(progress.planned({1, 1})), Numbers{});
    for (const std::uint64_t number : {0U, 1U, 2U}) progress.plan({1, 1}, plan(number));
    EXPECT_EQ(numbers_of(progress.planned({1, 1})), (Numbers{0, 1, 2}));
    progress.save({1, 1}, {.sequence_number = 2, .bytes = 70});
    EXPECT_EQ(numbers_of(adopt(progress)->planned({1, 1})), Numbers{2});
    EXPECT_EQ(progress.numbers_used({1, 1}), 3U);
    EXPECT_EQ(progress.bytes(), 70U + 1'002);
    progress.save({1, 1}, {.sequence_number = 3});
    EXPECT_EQ(numbers_of(progress.planned({1, 1})), Numbers{});
    EXPECT_EQ(progress.numbers_used({1, 1}), 3U);
    EXPECT_EQ(numbers_of(progress.planned({1, 0})), Numbers{});
}

TEST(Progress, PacketThatTheOutputRefusesIsPlannedAgain) {
    auto progress = *Progress::create(kRings);
    for (const std::uint64_t number : {0U, 1U}) progress.plan({0, 0}, plan(number));
    progress.take_back({0, 0}, 1);
    EXPECT_EQ(numbers_of(progress.planned({0, 0})), Numbers{0});
    PlannedPacket larger = plan(1);
    larger.size *= 2;
    progress.plan({0, 0}, larger);
    EXPECT_EQ(progress.planned({0, 0}), (std::vector<PlannedPacket>{plan(0), larger}));
}

TEST(Progress, OfTooManyPacketsTheNumbersAreUsed) {
    auto progress = *Progress::create(kRings);
    progress.save({0, 0}, {.sequence_number = 10});
    for (std::uint64_t number = 10; number < 10 + Progress::kMaxPlanned + 2; ++number)
        progress.plan({0, 0}, plan(number));
    EXPECT_EQ(progress.planned({0, 0}).size(), Progress::kMaxPlanned);
    EXPECT_EQ(progress.planned({0, 0}).front(), plan(10));
    EXPECT_EQ(progress.numbers_used({0, 0}), 10 + Progress::kMaxPlanned + 2);
}

// Pages of different times, after a crash of everything.
TEST(Progress, PlansOfAnotherTimeAreNone) {
    auto progress = *Progress::create(kRings);
    progress.plan({0, 0}, plan(0));
    for (const std::uint64_t first : {200U, 1U}) {
        progress.save({0, 0}, {.sequence_number = first});
        EXPECT_EQ(numbers_of(progress.planned({0, 0})), Numbers{});
        EXPECT_EQ(progress.numbers_used({0, 0}), first);
    }
    progress.plan({0, 0}, plan(900));
    EXPECT_EQ(numbers_of(progress.planned({0, 0})), Numbers{});
    EXPECT_EQ(progress.numbers_used({0, 0}), 901U);
}

TEST(Progress, NumberOfAPacketThatWasGivenUpStaysUsed) {
    auto progress = *Progress::create(kRings);
    for (const std::uint64_t number : {0U, 1U, 2U}) progress.plan({0, 1}, plan(number));
    progress.forget_planned({0, 1}, 1);
    EXPECT_EQ(numbers_of(progress.planned({0, 1})), (Numbers{0, 2}));
    progress.forget_planned({0, 1}, 2);
    EXPECT_EQ(numbers_of(progress.planned({0, 1})), (Numbers{0}));
    EXPECT_EQ(progress.numbers_used({0, 1}), 3U);
}

TEST(Progress, EndsOfSnapshotsAreThoseOfTheLastOnes) {
    const StreamId stream{0, 1};
    auto progress = *Progress::create(kRings);
    EXPECT_TRUE(progress.ends(stream).empty());
    for (std::uint64_t ordinal = 1; ordinal <= 100; ++ordinal)
        progress.add_end(stream, {.ordinal = ordinal, .at = {.position = 10 * ordinal}});
    auto ends = adopt(progress)->ends(stream);
    ASSERT_EQ(ends.size(), Progress::kMaxPlanned);
    EXPECT_EQ(ends.front().ordinal, 101 - Progress::kMaxPlanned);
    EXPECT_EQ(ends.back().at.position, 1000U);
    EXPECT_TRUE(progress.ends({0, 2}).empty());
    progress.drop_ends(stream, 99);
    EXPECT_EQ(progress.ends(stream).back().ordinal, 98U);
    progress.drop_ends(stream);
    EXPECT_TRUE(progress.ends(stream).empty());
}

TEST(Progress, NumberThatCannotBeIsNone) {
    auto progress = *Progress::create(kRings);
    constexpr std::uint64_t kFar = ~std::uint64_t{0};
    for (const StreamProgress& wrong : {StreamProgress{.sequence_number = kFar}, StreamProgress{.timestamp = kFar},
                                        StreamProgress{.last_record = kFar}}) {
        progress.save({0, 0}, wrong);
        EXPECT_FALSE(progress.find({0, 0}));
    }
    progress.plan({0, 1}, plan((std::uint64_t{1} << 63) + 1));
    EXPECT_EQ(progress.numbers_used({0, 1}), 0U);
}

TEST(Progress, MemoryComesWithUse) {
    constexpr std::array<std::uint32_t, 1> kMany{10'000};
    auto progress = *Progress::create(kMany);
    progress.save({0, 0}, numbered(1));
    struct stat status {};
    ASSERT_EQ(::fstat(progress.fd(), &status), 0);
    EXPECT_LE(status.st_blocks * 512, 4096);
}

}  // namespace
}  // namespace leat::consumer
