#include "ring/ring_set.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ring/ring_format.hpp"

namespace leat::ring {
namespace {

constexpr RingSetGeometry kGeometry{.ring_size = kMinRingSize, .cpu_rings = 2, .thread_rings = 1};

TEST(RingSet, FileHasOnePageAndEachRing) {
    const auto set = RingSet::create(kGeometry, 5);
    ASSERT_TRUE(set);
    struct stat status {};
    ASSERT_EQ(::fstat(set->fd(), &status), 0);
    EXPECT_EQ(status.st_size, 4096 + 3 * (4096 + 65536));
}

TEST(RingSet, MemoryComesWithUse) {
    const auto set = RingSet::create({.ring_size = 1U << 26, .cpu_rings = 64, .thread_rings = 64}, 5);
    ASSERT_TRUE(set);
    struct stat status {};
    ASSERT_EQ(::fstat(set->fd(), &status), 0);
    EXPECT_LE(status.st_blocks * 512, (1 + 128) * 4096);
}

TEST(RingSet, NobodyCanShrinkOrGrowIt) {
    const auto set = RingSet::create(kGeometry, 5);
    EXPECT_NE(::ftruncate(set->fd(), 4096), 0);
    EXPECT_NE(::ftruncate(set->fd(), 1 << 20), 0);
    EXPECT_NE(::fcntl(set->fd(), F_ADD_SEALS, F_SEAL_WRITE), 0);
}

TEST(RingSet, RecordsAreMappedTwiceInARow) {
    const auto set = RingSet::create(kGeometry, 5);
    for (std::uint32_t ring = 0; ring < kGeometry.ring_count(); ++ring) {
        // volatile: the compiler does not know that the records are mapped twice.
        volatile char* records = set->rings() + ring * map_stride(kMinRingSize) + kPageSize;
        records[3] = static_cast<char>('a' + ring);
        EXPECT_EQ(records[kMinRingSize + 3], 'a' + static_cast<int>(ring));
        records[2 * kMinRingSize - 1] = 'z';
        EXPECT_EQ(records[kMinRingSize - 1], 'z');
    }
}

// Reads what a program sees after it has mapped the descriptor.
TEST(RingSet, FirstPageSaysWhatFollows) {
    const auto set = RingSet::create(kGeometry, 5);
    RingSetHeader header{};
    ASSERT_EQ(::pread(set->fd(), &header, sizeof header, 0), static_cast<ssize_t>(sizeof header));
    EXPECT_EQ(header.magic, kRingSetMagic);
    EXPECT_EQ(header.version, kRingSetVersion);
    EXPECT_EQ(header.ring_size, kMinRingSize);
    EXPECT_EQ(header.cpu_ring_count, 2U);
    EXPECT_EQ(header.thread_ring_count, 1U);
    RingHeader ring{};
    ASSERT_EQ(::pread(set->fd(), &ring, sizeof ring, 4096 + 4096 + 65536), static_cast<ssize_t>(sizeof ring));
    EXPECT_EQ(ring.last_timestamp, 5U);
    EXPECT_EQ(ring.limit, kMinRingSize);
    EXPECT_EQ(ring.owner, 0U);
}

TEST(RingSize, PowersOfTwoWithinBounds) {
    EXPECT_TRUE(is_valid_ring_size(64U << 10));
    EXPECT_TRUE(is_valid_ring_size(1U << 30));
    for (const std::uint64_t size : {0ULL, 32ULL << 10, (64ULL << 10) + 1, 96ULL << 10, 2ULL << 30, ~0ULL})
        EXPECT_FALSE(is_valid_ring_size(size)) << size;
}

}  // namespace
}  // namespace leat::ring
