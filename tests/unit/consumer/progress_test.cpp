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
    const auto second_slot = static_cast<off_t>(sizeof(std::uint64_t) + sizeof(StreamProgress));
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
