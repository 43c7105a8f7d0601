#include "ring/ring_set.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <optional>

#include "ring/ring_format.hpp"
#include "support/ring_memory.hpp"

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

// Where memory is limited, a page that is touched for the first time may be SIGBUS.
TEST(RingSet, PromisedRingsAreThereBeforeAnybodyWrites) {
    const auto set =
        RingSet::create({.ring_size = 1U << 20, .cpu_rings = 2, .thread_rings = 2}, 5, MemoryPlace::promised());
    ASSERT_TRUE(set);
    EXPECT_EQ(set->header().is_promised, 1U);
    const auto allocated = [&set] {
        struct stat status {};
        EXPECT_EQ(::fstat(set->fd(), &status), 0);
        return static_cast<std::uint64_t>(status.st_blocks) * 512;
    };
    const std::uint64_t at_start = file_offset(1U << 20, 2) + 2 * kPageSize;
    EXPECT_EQ(allocated(), at_start);
    ASSERT_TRUE(set->populate_thread_ring(1));
    EXPECT_EQ(allocated(), at_start + (1U << 20));
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
        volatile char* records = test::records_of(*set, ring);
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

UniqueFd other_fd(const RingSet& set) { return UniqueFd(::dup(set.fd())); }

TEST(RingSet, AdoptedOneHasTheSameRings) {
    const auto before = RingSet::create(kGeometry, 5);
    test::records_of(*before, 0)[3] = 'a';
    test::records_of(*before, 2)[0] = 'z';  // the ring of a thread
    before->header().thread_rings_used = 1;
    const auto set = RingSet::adopt(other_fd(*before), kGeometry, 5);
    ASSERT_TRUE(set);
    EXPECT_EQ(set->created(), 5U);
    EXPECT_EQ(set->geometry().ring_count(), 3U);
    EXPECT_EQ(test::records_of(*set, 0)[3], 'a');
    EXPECT_EQ(test::records_of(*set, 0)[kMinRingSize + 3], 'a');
    EXPECT_EQ(test::records_of(*set, 2)[0], 'z');
    EXPECT_EQ(set->thread_rings_used(), 1U);
    test::records_of(*set, 0)[3] = 'b';
    EXPECT_EQ(test::records_of(*before, 0)[3], 'b');
    EXPECT_EQ(&set->doorbell(), &set->header().doorbell);
}

// Programs write into the first page.
TEST(RingSet, AdoptedOneIsAsLargeAsItWasMade) {
    const auto before = RingSet::create(kGeometry, 5);
    before->header() = {};
    before->header().ring_size = 1U << 30;
    before->header().cpu_ring_count = ~0U;
    before->header().thread_rings_used = ~0U;
    const auto set = RingSet::adopt(other_fd(*before), kGeometry, 5);
    ASSERT_TRUE(set);
    EXPECT_EQ(set->thread_rings_used(), 1U);
    EXPECT_TRUE(set->reader(2).published());
}

TEST(RingSet, MemoryOfAnotherSizeIsNotAdopted) {
    const auto before = RingSet::create(kGeometry, 5);
    for (const RingSetGeometry& geometry :
         {RingSetGeometry{.ring_size = kMinRingSize, .cpu_rings = 2, .thread_rings = 2},
          RingSetGeometry{.ring_size = kMinRingSize, .cpu_rings = 2, .thread_rings = 0},
          RingSetGeometry{.ring_size = 2 * kMinRingSize, .cpu_rings = 2, .thread_rings = 1}}) {
        const auto set = RingSet::adopt(other_fd(*before), geometry, 5);
        ASSERT_FALSE(set);
        EXPECT_EQ(set.error().kind, ErrorKind::kCorrupt);
    }
}

TEST(RingSet, MemoryThatCanShrinkIsNotAdopted) {
    UniqueFd unsealed(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ASSERT_EQ(::ftruncate(unsealed.get(), static_cast<off_t>(file_size(kMinRingSize, 3))), 0);
    EXPECT_FALSE(RingSet::adopt(UniqueFd(::dup(unsealed.get())), kGeometry, 5));
    ASSERT_EQ(::fcntl(unsealed.get(), F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SEAL), 0);
    EXPECT_FALSE(RingSet::adopt(std::move(unsealed), kGeometry, 5));
    EXPECT_FALSE(RingSet::adopt(UniqueFd(::open("/dev/zero", O_RDWR | O_CLOEXEC)), kGeometry, 5));
}

// Programs say how many they use.
TEST(RingSet, ThreadsHaveAsManyRingsMappedAsTheirShare) {
    constexpr RingSetGeometry kWithThreads{.ring_size = kMinRingSize, .cpu_rings = 2, .thread_rings = 4};
    const auto share = std::make_shared<MapShare>(3);
    std::optional first(*RingSet::create(kWithThreads, 5));
    first->share_maps(share);
    EXPECT_TRUE(first->map(0));
    for (const std::uint32_t ring : {2U, 3U, 2U}) EXPECT_TRUE(first->map(ring));
    RingSet second = *RingSet::create(kWithThreads, 5);
    second.share_maps(share);
    second.header().thread_rings_used = ~0U;
    EXPECT_EQ(second.mapped_in_use(), 3U);
    EXPECT_FALSE(second.map(3));
    first.reset();
    EXPECT_EQ(second.mapped_in_use(), 5U);
    EXPECT_FALSE(second.map(5));
}

TEST(RingSize, PowersOfTwoWithinBounds) {
    EXPECT_TRUE(is_valid_ring_size(64U << 10));
    EXPECT_TRUE(is_valid_ring_size(1U << 30));
    for (const std::uint64_t size : {0ULL, 32ULL << 10, (64ULL << 10) + 1, 96ULL << 10, 2ULL << 30, ~0ULL})
        EXPECT_FALSE(is_valid_ring_size(size)) << size;
}

}  // namespace
}  // namespace leat::ring
